"""Tests that docs/dev/coupling-protocol.md describes the protocol as it is."""

from __future__ import annotations

import re
import typing

import pytest

from cosched.core.cluster.coupling import mate_messages
from cosched.core.cluster.coupling.engine_messages import (
    CapacityChanged,
    JobAnnounced,
    JobNotReady,
    JobPrepared,
    JobQueued,
    JobReady,
    PassWanted,
    PeerLost,
    Received,
    Send,
)
from cosched.core.cluster.coupling.groups import Group, Rights
from cosched.core.cluster.coupling.machine import Coupling
from cosched.core.cluster.coupling.mate_messages import (
    Announce,
    Answer,
    Cause,
    NotReady,
    Prepared,
    Question,
    Ready,
    Reserved,
    Unknown,
    Went,
)
from cosched.core.cluster.coupling.settings import CouplingSettings, Patience
from cosched.core.cluster.coupling.state import Stage
from cosched.core.cluster.queue.queue_commands import WakeAt
from tests.places import ROOT

PAGE = (ROOT / "docs" / "dev" / "coupling-protocol.md").read_text()


def first_column(title: str) -> list[str]:
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `?([\w./]+)`?[^|]*\| ", section, re.MULTILINE)[1:]


def test_the_table_of_events_is_that_of_the_machine():
    section = PAGE.split("## Events of a job's engine\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", section, re.MULTILINE)
    names = {tuple(Stage): "all"}
    assert rows == [
        (event.__name__, names.get(stages) or ", ".join(stage.value for stage in stages))
        for event, (stages, _) in Coupling.STEPS.items()
    ]


def test_the_tables_have_all_questions_stages_and_answers():
    asks = {kind.__name__ for kind in typing.get_args(mate_messages.AnyAsk)}
    assert set(first_column("Questions and answers")) == asks
    assert first_column("Stages and leases") == [stage.value for stage in Stage]
    section = PAGE.split("## Questions and answers\n")[1].split("\n## ")[0]
    for reply in typing.get_args(mate_messages.AnyReply):
        assert re.search(rf"\b{reply.__name__}\b", section), reply


def test_the_settings_and_files_that_are_named_exist():
    names = set(re.findall(r"`(\w+_ns|when_down|older_first)`", PAGE))
    fields = {*CouplingSettings.__dataclass_fields__, *Patience.__dataclass_fields__}
    assert names <= fields
    folder = ROOT / "cosched/core/cluster/coupling"
    for name in re.findall(r"`([\w/]+(?:\.py|/))`[,|]? ", PAGE.split("## Questions")[0]):
        if not name.startswith("cosched"):
            assert (folder / name).exists(), name


REPLIES = {
    "Reserved": Reserved,
    "Prepared": lambda name: Prepared(name, 10**12, ""),
    "NotReady": lambda name: NotReady(Cause.NODES),
    "Went": lambda name: Went(),
}


class Example:
    """Runs the lines of one example."""

    def __init__(self) -> None:
        self.coupling = Coupling("a", CouplingSettings(), Rights(same_names={"b"}))
        self.group = Group("g", ("a", "b"))
        self.open = []
        self.last = []
        self.feed(CapacityChanged(0, 10))
        self.feed(JobAnnounced(0, 0, 1, self.group, "ann"))
        self.feed(JobQueued(0, 1, 4))
        (announced,) = self.open
        assert isinstance(announced.ask, Announce)
        self.receive(Unknown())
        self.round = None

    def feed(self, event) -> None:
        self.last = []
        for command in self.coupling.handle(event):
            if isinstance(command, WakeAt | PassWanted):
                continue
            if isinstance(command, Send) and isinstance(command.message, Question):
                self.open.append(command.message)
                self.last.append(
                    f"Send({command.to}, {type(command.message.ask).__name__})"
                )
                self.round = getattr(command.message.ask, "round", None)
            elif isinstance(command, Send):
                name = type(command.message.reply).__name__
                self.last.append(f"Send({command.to}, {name})")
            else:
                self.last.append(f"{type(command).__name__}({command.number})")

    def receive(self, reply) -> None:
        question = self.open.pop()
        answer = Answer("b", question.incarnation, question.number, reply)
        self.feed(Received(0, "b", answer))

    def event(self, line: str) -> None:
        name, what = re.fullmatch(r"(\w+)\((.*)\)", line).groups()
        if name == "PeerLost":
            self.feed(PeerLost(0, what))
        elif name != "Received":
            kinds = (JobReady, JobPrepared, JobNotReady)
            kind = {each.__name__: each for each in kinds}[name]
            self.feed(kind(0, int(what)))
        elif what == "b, Ready":
            digest = self.group.digest
            asked = Question("b", 1, 1, 1, "g", digest, 2, "ann", Ready(0))
            self.feed(Received(0, "b", asked))
        else:
            self.receive(REPLIES[what.split(", ")[1]](self.round))


@pytest.mark.parametrize("text", re.findall(r"```example\n(.*?)```", PAGE, re.DOTALL))
def test_the_examples_are_true(text):
    example = Example()
    wanted = []
    for line in text.splitlines():
        if line.startswith("> "):
            assert example.last == wanted or not wanted, text
            example.event(line[2:])
            wanted = []
        else:
            wanted.append(line[2:])
            assert example.last[: len(wanted)] == wanted, text
    assert example.last == wanted
