"""The driver of a coupled domain with an engine of the test: two domains in one process."""

from __future__ import annotations

import asyncio
import functools
import re

import pytest

from cosched.cluster.controller.controller import Controller
from cosched.cluster.coupling.clock import DomainClock
from cosched.cluster.coupling.driver import Driver
from cosched.cluster.coupling.mates import parse_mates, read_comment
from cosched.cluster.coupling.pairs import Pairs
from cosched.cluster.coupling.snapshot_store import SnapshotStore
from cosched.cluster.engines.slurm.engine import SlurmEngine
from cosched.cluster.engines.slurm.events import (
    Cancelled,
    Capacity,
    Ended,
    GaveBack,
    NotReady,
    PairedJob,
    Reached,
    Ready,
    Started,
    StartFailed,
    Submitted,
    Tried,
)
from cosched.cluster.paths import DomainPaths
from cosched.cluster.user_socket import Person
from cosched.core.cluster.coupling.engine_messages import Received
from cosched.core.cluster.coupling.groups import Rights
from cosched.core.cluster.coupling.mate_messages import Question
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.cluster.coupling.state import Stage
from cosched.core.cluster.queue.queue_events import Ticked
from cosched.core.errors import CoschedError, StateLost
from cosched.documents import decode_toml
from tests.places import ROOT
from tests.unit.cluster.coupling.live.live_domains import parse_coupled

NAMES = ("a", "b")


class Engine:
    """A queue of ``nodes`` nodes that starts jobs in their order."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.report = None
        self.queue, self.ready, self.running, self.refused = {}, {}, {}, {}
        self.resting, self.mates, self.places, self.texts = set(), {}, {}, {}
        self.gone = []

    @property
    def free(self):
        return self.nodes - sum(self.ready.values()) - sum(self.running.values())

    def submit(self, number, size=1, text="mate=g@b", own="a"):
        mates = parse_mates(text, own, [name for name in NAMES if name != own])
        job = PairedJob(number, 1000, "anna", mates, size, None, 0)
        self.report(Submitted(job))
        self.queue[number] = size
        self.offer()

    def offer(self):
        for number, size in list(self.queue.items()):
            if number not in self.resting and size <= self.free:
                self.ready[number] = self.queue.pop(number)
                self.report(Ready(number, f"n{number}"))

    def end(self, number):
        del self.running[number]
        self.report(Ended(number, "COMPLETED"))
        self.offer()

    def go(self, number, mates=()):
        if number in self.ready:
            self.mates[number] = list(mates)
            self.running[number] = self.ready.pop(number)
            self.gone.append(number)
            asyncio.get_running_loop().call_soon(self.report, Started(number, 0))

    def give_back(self, number, wait_s):
        if number in self.ready:
            self.queue[number] = self.ready.pop(number)
            self.resting.add(number)
            loop = asyncio.get_running_loop()
            loop.call_soon(self.report, GaveBack(number))
            loop.call_later(wait_s, self.wake, number)

    def try_now(self, number):
        asyncio.get_running_loop().call_soon(self._try, number)

    def _try(self, number):
        if number in self.queue and self.queue[number] <= self.free:
            self.resting.discard(number)
            self.ready[number] = self.queue.pop(number)
            self.report(Ready(number, f"n{number}"))
        ready = number in self.ready
        self.report(Tried(number, ready, "", None if ready else 60.0))

    def wake(self, number):
        self.resting.discard(number)
        self.offer()

    def refuse(self, number, reason):
        self.refused[number] = reason
        self.give_back(number, 3600.0)

    def cancel(self, number, reason):
        raise AssertionError("nothing here cancels jobs")

    def set_priority(self, number, places):
        self.places[number] = places


class Pair:
    """Two coupled domains. lost: no message arrives."""

    def __init__(self, folder, **coupling):
        self.folder = folder
        self.coupling = {"same_names": list(NAMES), "again": "100ms", **coupling}
        self.engines = {name: Engine(4) for name in NAMES}
        self.domains = {}
        self.lost = False
        self.log = []
        for name in NAMES:
            self.start(name)

    def start(self, name):
        (other,) = set(NAMES) - {name}
        config = parse_coupled(
            {
                "name": name,
                "engine": "slurm",
                "coupling": {
                    "listen": "localhost:1",
                    "domains": {other: "localhost:2"},
                    **{**self.coupling, "same_names": [other]},
                },
            }
        )

        class Mail:
            def send(_, to, message):
                if not self.lost and to in self.domains:
                    loop = asyncio.get_running_loop()
                    loop.call_soon(self.domains[to].driver.receive, name, message)

        memory = SnapshotStore(self.folder / f"{name}.sqlite")
        engine = self.engines[name]
        pairs = Pairs(config, memory, Mail(), DomainClock())
        domain = SlurmEngine(config, engine, pairs, self.log.append)
        engine.report = domain.report
        self.domains[name] = domain
        domain.report(Capacity(4))
        for number, size in [*engine.queue.items(), *engine.ready.items()]:
            text = engine.texts.get(number, f"mate=g@{other}")
            mates = parse_mates(text, name, [other])
            domain.report(Submitted(PairedJob(number, 1000, "anna", mates, size, None, 0)))
        for number in engine.ready:
            domain.report(Ready(number, f"n{number}"))
        domain.report(Reached(True))

    def stop(self, name, store=None):
        """Ends a controller; returns what its store has, if that is named."""
        domain = self.domains.pop(name)
        domain.driver.close()
        self.engines[name].report = lambda event: None
        if store is not None:
            domain.pairs._memory.close()
        return store and store.read_bytes()

    def stage(self, name, number):
        return self.domains[name].pairs.coupling.state.members[number].stage

    def group(self, name, number):
        member = self.domains[name].pairs.coupling.state.members.get(number)
        return None if member is None else member.group.name

    def why(self, name, number):
        return self.domains[name].pairs.explain(number)


async def until(condition, what, within_s=20.0):
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while not condition():
        assert loop.time() < end, what
        await asyncio.sleep(0.01)


def scenario(test):
    """Runs an async test in a loop of its own."""

    @functools.wraps(test)
    def run(*args, **values):
        asyncio.run(test(*args, **values))

    return run


@scenario
async def test_pair_starts_together(tmp_path):
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a holds")
    assert a.gone == []
    assert re.fullmatch(
        r"ready, holds 1 node since 0 s for g@b: b does not have its group; "
        r"released at \d\d:\d\d:\d\d",
        pair.why("a", 1),
    )
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")
    assert (a.mates, b.mates) == ({1: [("b", "7@n7")]}, {7: [("a", "1@n1")]})
    a.end(1)
    assert pair.stage("a", 1) is Stage.OVER


@scenario
async def test_yielded_job_is_tried_when_its_mate_is_ready(tmp_path):
    pair = Pair(tmp_path, scheme="yield", yield_wait="1h", again="1h", raise_by=3)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    await until(lambda: 1 in a.resting, "a yields")
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")
    assert pair.domains["a"].pairs.coupling.counts.yields == 1
    assert a.places == {1: 3}


@scenario
async def test_mate_that_finds_no_nodes_is_waited_for(tmp_path):
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    b.running[99] = 4
    b.submit(7, text="mate=g@a", own="b")
    a.submit(1)
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a holds")
    del b.running[99]
    b.offer()
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")


@scenario
async def test_hold_ends_after_its_lease(tmp_path):
    pair = Pair(tmp_path, release="200ms", release_wait="100ms", again="1h")
    a, _ = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    await until(lambda: 1 in a.resting, "the nodes are released")
    await until(lambda: 1 in a.ready, "it holds again")
    assert a.gone == []


@scenario
async def test_job_that_lost_its_nodes_is_not_started_alone(tmp_path):
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a holds")
    a.queue[1] = a.ready.pop(1)
    a.resting.add(1)
    a.report(NotReady(1, "requeued"))
    assert pair.stage("a", 1) is Stage.QUEUING
    a.running[99] = 4
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: pair.stage("b", 7) is Stage.HOLDING, "b holds")
    assert (a.gone, b.gone) == ([], [])
    del a.running[99]
    a.wake(1)
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")


@scenario
async def test_mate_of_a_cancelled_job_does_not_wait(tmp_path):
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a holds")
    del a.ready[1]
    a.report(Cancelled(1, "CANCELLED"))
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: b.gone == [7], "b starts")


@scenario
async def test_domain_that_is_down(tmp_path):
    pair = Pair(tmp_path, when_down="start", answer="2s")
    a, _ = pair.engines.values()
    await asyncio.sleep(0.05)
    pair.lost = True
    a.submit(1)
    await until(lambda: a.gone == [1], "a starts alone")
    assert "job 1: starts alone: b does not answer" in pair.log
    assert pair.domains["a"].pairs.coupling.counts.started_alone == 1


@scenario
async def test_second_job_of_a_group_and_disputed_groups_are_refused(tmp_path):
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    a.submit(2)
    assert "group 'g'" in a.refused[2]
    b.submit(7, text="mate=g@a,within=60s", own="b")
    await until(lambda: a.refused.keys() | b.refused.keys() > {2}, "the group is disputed")
    assert (a.gone, b.gone) == ([], [])


@scenario
async def test_job_that_holds_does_not_count_as_ready_once_its_group_is_refused(tmp_path):
    """Its mate comes with other options; then the mate's user corrects them."""
    pair = Pair(tmp_path, again="50ms")
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a holds")
    b.resting.add(7)
    b.submit(7, text="mate=g@a,within=60s", own="b")
    await until(lambda: 1 in a.refused, "b refuses the group, too")
    await until(lambda: pair.stage("a", 1) is Stage.QUEUING, "it has no nodes")
    assert 1 in a.queue
    b.report(Cancelled(7, "its comment has changed"))
    assert "b refuses its group" in pair.why("a", 1)
    b.resting.clear()
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")
    assert not any(domain.pairs._disputes for domain in pair.domains.values())


@scenario
async def test_controller_that_was_killed_continues(tmp_path):
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a holds")
    pair.stop("a")
    b.submit(7, text="mate=g@a", own="b")
    await asyncio.sleep(0.1)
    pair.start("a")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")


@pytest.mark.parametrize("backup", [False, True])
@scenario
async def test_domain_whose_store_is_lost_or_older_starts_pairs_again(tmp_path, backup):
    """The other domain has seen later lives of it."""
    pair = Pair(tmp_path, answer="2s")
    a, b = pair.engines.values()
    store = tmp_path / "a.sqlite"
    stored = []
    for _ in range(3):
        await asyncio.sleep(0.05)
        stored.append(pair.stop("a", store))
        pair.start("a")
    await asyncio.sleep(0.05)
    a.submit(1)
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")
    a.end(1)
    pair.stop("a", store)
    store.unlink()
    if backup:
        store.write_bytes(stored[0])
    pair.start("a")
    await asyncio.sleep(0.05)
    a.submit(2, text="mate=h@b")
    b.submit(8, text="mate=h@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1, 2], [7, 8]), "both start")
    for domain in pair.domains.values():
        assert domain.pairs.coupling.counts.started_alone == 0


@scenario
async def test_start_that_was_decided_happens_after_a_kill(tmp_path):
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    orders = []
    a.go = lambda number, _mates: orders.append(number)  # lost with the controller
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: orders == [1] and b.gone == [7], "both are told to go")
    pair.stop("a")
    del a.go
    pair.start("a")
    await until(lambda: a.gone == [1], "a starts, too")


@scenario
async def test_job_that_holds_keeps_its_nodes_when_the_controller_restarts(tmp_path):
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a holds")
    pair.stop("a")
    gave_back = []
    a.give_back = lambda number, _wait_s: gave_back.append(number)
    pair.start("a")
    state = pair.domains["a"].pairs.coupling.state
    await until(lambda: not state.recovering, "the jobs are reported")
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a holds again")
    assert (gave_back, a.ready.keys()) == ([], {1})
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")


@pytest.mark.parametrize("first", ["mate=wrong@b", "mate=g@b"])
@scenario
async def test_comment_that_has_changed_is_announced(tmp_path, first):
    """It named the wrong group before, or names the same one again."""
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.resting.update([1])
    a.submit(1, text=first)
    a.report(Cancelled(1, "its comment has changed"))
    await asyncio.sleep(0.05)
    a.submit(1)
    assert pair.stage("a", 1) is Stage.QUEUING
    a.wake(1)
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a waits for its mate")
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")


@scenario
async def test_job_that_could_not_wait_is_announced_after_a_restart(tmp_path):
    """Its user has made it wait again while another controller was up."""
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.resting.update([1])
    a.submit(1)
    a.report(Cancelled(1, "it cannot wait again any more"))
    size = a.queue.pop(1)
    pair.stop("a")
    pair.start("a")
    await asyncio.sleep(0.05)
    a.resting.clear()
    a.submit(1, size=size)
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a waits for its mate")
    assert a.gone == []
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")


@scenario
async def test_comment_that_changed_while_the_controller_was_away(tmp_path):
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1, text="mate=wrong@b")
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a holds")
    pair.stop("a")
    a.texts[1] = "mate=g@b"
    pair.start("a")
    await until(lambda: pair.group("a", 1) == "g", "it is in the other group")
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")


@scenario
async def test_job_that_ran_does_not_wait_for_its_mates_again(tmp_path):
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")
    await asyncio.sleep(0.05)
    a.end(1)
    a.submit(1)
    assert a.gone == [1, 1]
    assert a.refused == {}


@pytest.mark.parametrize("has_nodes", [False, True])
@scenario
async def test_job_that_ran_does_not_wait_again_after_a_restart(tmp_path, has_nodes):
    """Slurm has put it back, and the domain of its mate does not answer by now."""
    pair = Pair(tmp_path, when_down="yield")
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")
    await asyncio.sleep(0.05)
    a.end(1)
    a.resting.update([1, 2])
    a.submit(1)
    a.submit(2, text="mate=other@b")  # its announcement stores that the first one ran
    del a.queue[2]
    pair.stop("a")
    pair.stop("b")
    if has_nodes:
        a.ready[1] = a.queue.pop(1)
    pair.start("a")
    state = pair.domains["a"].pairs.coupling.state
    await until(lambda: not state.recovering, "the jobs are reported")
    assert pair.stage("a", 1) is Stage.OVER
    a.wake(1)
    await until(lambda: a.gone == [1, 1], "it starts")
    assert pair.domains["a"].pairs.coupling.counts.started == 1


@scenario
async def test_second_start_of_a_job_has_the_addresses_of_its_mates(tmp_path):
    """Slurm has put the job back, although its start was decided."""
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    orders = []
    a.go = lambda number, mates=(): orders.append(list(mates))
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: b.gone == [7], "the start is decided")
    woken = []
    a.wake = woken.append
    a.report(StartFailed(1, "Slurm has put it back"))
    assert woken == [1]  # its mate runs: it shall not wait
    a.report(Ready(1, "n1"))
    assert orders == [[("b", "7@n7")]] * 2


@scenario
async def test_job_that_was_forgotten_while_it_waited_is_announced_again(tmp_path):
    pair = Pair(tmp_path, remember="200ms")
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: (a.gone, b.gone) == ([1], [7]), "both start")
    await asyncio.sleep(0.05)
    b.end(7)
    a.end(1)
    a.resting.add(1)
    a.submit(1)  # Slurm has requeued it
    members = pair.domains["a"].pairs.coupling.state.members
    await asyncio.sleep(0.3)
    a.submit(2, text="mate=other@b")  # lets the domain forget what is over
    await until(lambda: 1 not in members, "the job is forgotten")
    a.wake(1)
    assert a.refused == {}
    assert pair.stage("a", 1) is not Stage.OVER


def test_store_of_a_domain_of_another_name_is_refused(tmp_path):
    def restart(name):
        store = SnapshotStore(tmp_path / "mates.sqlite")
        try:
            return store.restart(name, CouplingSettings(), Rights(), 0)
        finally:
            store.close()

    restart("intrepid")
    assert restart("intrepid").name == "intrepid"
    with pytest.raises(CoschedError, match=r"is of domain 'intrepid'.* names 'eureka'"):
        restart("eureka")


def test_configuration_of_the_guide():
    page = (ROOT / "docs" / "coupling.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    config = parse_coupled(decode_toml(text, "f"))
    assert config.domains == {"eureka": "10.0.0.2:7580"}
    comment = re.search(r"#SBATCH --comment=(.*)", page)[1]
    assert read_comment(comment, config.name, config.domains).group == "climate7"


@pytest.mark.parametrize(
    ("change", "about"),
    [
        ({"name": "a b"}, "'a b' cannot be the name"),
        ({"colour": 1}, "colour: no such key"),
        ({"coupling": {"listen": "x", "domains": {"b": "h:1"}}}, "'x' is not HOST:PORT"),
        ({"coupling": {"listen": "h:1", "domains": {}}}, "at least one other domain"),
        ({"coupling": {"listen": "h:1", "domains": {"a": "h:2"}}}, "a is this domain"),
        (
            {"coupling": {"listen": "h:1", "domains": {"b": "h:1"}, "scheme": "x"}},
            "coupling.scheme",
        ),
        (
            {"coupling": {"listen": "h:1", "domains": {"b": "h:1"}, "release": "5"}},
            "coupling.release: '5' is not a duration",
        ),
        (
            {"coupling": {"listen": "h:1", "domains": {"b": "h:1"}, "users": {"x": "y"}}},
            "'x' is not DOMAIN/USER",
        ),
        (
            {"coupling": {"listen": "h:1", "domains": {"b": "h:1"}, "answer": "1s"}},
            "coupling.answer: '1s' is too short; write 2s or more",
        ),
        (
            {"coupling": {"listen": "h:1", "domains": {"b": "h:1"}, "release_wait": "0s"}},
            "coupling.release_wait: '0s' is too short; write 1ms or more",
        ),
        ({"slurm": {"then": "stop"}}, "slurm.then: 'stop' is none of start, yield"),
        ({"slurm": {"poll": "0s"}}, "slurm.poll: '0s' is too short; write 50ms or more"),
    ],
)
def test_wrong_configuration_is_one_line(change, about):
    good = {
        "name": "a",
        "engine": "slurm",
        "coupling": {"listen": "h:1", "domains": {"b": "h:2"}},
    }
    parse_coupled(good)
    with pytest.raises(CoschedError) as caught:
        parse_coupled({**good, **change})
    assert about in str(caught.value)
    assert "\n" not in str(caught.value)


@scenario
async def test_job_that_slurm_starts_by_itself_counts_as_started_alone(tmp_path):
    pair = Pair(tmp_path)
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.submit(1)
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a holds")
    a.running[1] = a.ready.pop(1)
    a.report(Started(1, 0))
    assert pair.domains["a"].pairs.coupling.counts.started_alone == 1
    assert "job 1: has started without its mates" in pair.log
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: b.gone == [7], "b does not wait")


@scenario
async def test_mate_that_is_lost_while_all_begin_to_prepare(tmp_path):
    """Its job goes back to the queue in the step that lets it prepare."""
    pair = Pair(tmp_path, answer="2s", when_down="yield", again="1h")
    a, b = pair.engines.values()
    await asyncio.sleep(0.05)
    a.running[99] = 4
    tries = []
    a.try_now = tries.append
    a.submit(1)
    b.submit(7, text="mate=g@a", own="b")
    await until(lambda: tries == [1], "a looks for nodes for its mate")
    pair.lost = True
    pair.domains["a"].pairs.coupling._post.lose("b")
    del a.running[99]
    a.offer()
    assert pair.stage("a", 1) is Stage.QUEUING
    assert (a.gone, list(a.resting)) == ([], [1])


@pytest.mark.parametrize("body", [b'{"x":' + b"[" * 100_000, b"", b'{"do": "submit"}'])
@scenario
async def test_odd_request_to_the_controller_of_a_slurm_is_answered(tmp_path, body):
    engine = Pair(tmp_path).domains["a"]
    answer = Controller(engine, DomainPaths(tmp_path), print)._requests.answer
    assert b"Slurm has its jobs" in await answer(Person(7, 7), body)


@scenario
async def test_state_that_cannot_be_stored_is_no_fault_of_the_user(tmp_path):
    pair = Pair(tmp_path)
    a, _ = pair.engines.values()
    await asyncio.sleep(0.05)

    def full(_coupling):
        raise StateLost("a.sqlite: disk is full")

    pair.domains["a"].pairs._memory.keep = full
    with pytest.raises(StateLost):
        a.submit(1)
    assert a.refused == {}


@scenario
async def test_controller_that_ends_stores_no_message_of_that_moment(tmp_path):
    """Its store is closed by then. The sender asks again."""
    pair = Pair(tmp_path)
    await asyncio.sleep(0.05)
    failed = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failed.append(context))
    ending = pair.domains["a"]
    pair.engines["a"].submit(1)
    await until(lambda: pair.stage("a", 1) is Stage.HOLDING, "a holds")
    received = []
    receive = ending.driver.receive

    def receive_and_end(peer, message):
        if not received:
            receive(peer, message)
        if isinstance(message, Question):
            received.append(message)
            ending.driver.close()
            ending.pairs._memory.close()

    ending.driver.receive = receive_and_end
    pair.engines["b"].submit(7, text="mate=g@a", own="b")  # b asks a
    await until(lambda: received, "a receives a question")
    pair.lost = True
    await asyncio.sleep(0.05)
    assert failed == []


class Echo:
    """A machine that orders each event to be carried out, and the pairs of its domain."""

    def __init__(self):
        self.stored = []

    def handle(self, event):
        return () if isinstance(event, Ticked) else (event,)

    def received(self, peer, message):
        return Received(0, peer, message)

    def before(self, commands):
        self.stored.append(list(commands))


@scenario
async def test_messages_wait_until_the_engine_has_done_what_it_does():
    """The engine may have ended a job already, and reports it next. An order about that job
    would be out of date."""
    echo, done = Echo(), []
    driver = Driver(echo, DomainClock(), done.append, echo)
    driver.receive("b", "first")
    driver.receive("b", "second")
    driver.handle("the end of a job")
    assert done == ["the end of a job"]
    await asyncio.sleep(0)
    messages = [Received(0, "b", "first"), Received(0, "b", "second")]
    assert done == ["the end of a job", *messages]
    assert echo.stored == [["the end of a job"], messages]
