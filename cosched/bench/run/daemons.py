"""Reads the state of the nodes' scheduler daemons, and changes and restores settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from cosched.bench.results.results import Activity
from cosched.bench.run.arms import Arm
from cosched.bench.run.interrupts import shielded
from cosched.bench.run.site import Site
from cosched.core.decoding import convert
from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.node.messages import Branch
from cosched.core.node.settings import USUAL
from cosched.core.trace.job_record import JobRecord
from cosched.lab import life
from cosched.linux.here import this_machine, this_node
from cosched.linux.waiting import comes_true
from cosched.node.sockets.client import HeldChanges, request
from cosched.rundir.paths import NodePaths

#: The settings that a bench may change.
NAMES = tuple(USUAL.texts())

#: The kernel reports a task's end to the daemons and to us at about the same time.
PATIENCE_S = 3.0
AWAIT_S = 0.02

Answers = dict[NodePaths, dict[str, Any]]


def paths_of(site: Site, host: str) -> NodePaths:
    """Returns the places of the daemons of a node of the bench. This machine's have its own
    name, also if the user wrote ``localhost``."""
    own = not site.lab and this_machine().is_named_by(host)
    return NodePaths(site.run_dir, this_node({}) if own else host)


def ask(site: Site) -> Answers:
    """Returns the status of every node whose daemon can be reached from here."""
    answers: Answers = {}
    for host in site.hosts:
        paths = paths_of(site, host)
        try:
            answers[paths] = request(paths, "status")
        except NoDaemon:
            continue
    return answers


def pids(answers: Answers) -> frozenset[int]:
    """Returns the process numbers of scheduler and timer daemons."""
    return frozenset(
        pid
        for answer in answers.values()
        for pid in (answer["pid"], answer["timer"]["pid"])
    )


def activity(answers: Answers) -> Activity | None:
    """Returns the daemons' activity since they started; None without daemons."""
    if not answers:
        return None
    total: Counter[str] = Counter()
    for answer in answers.values():
        total.update(answer["counters"])
    return Activity(
        tasks=total[Branch.REG_NEW_JOB.value]
        - total[Branch.REG_BEFORE_TASKS.value]
        + total[Branch.REG_NEW_TASK.value],
        timer_switches=total[Branch.CSW_SWITCHED.value],
        message_switches=total[Branch.SCH_GRANTED.value],
    )


def describe(answers: Answers) -> list[dict[str, Any]]:
    """Returns the nodes as they stand in the bench's document."""
    return [
        {
            "name": paths.node,
            "settings": {name: answer["settings"][name] for name in NAMES},
            "class_scheduler": {
                name: answer["class_scheduler"][name] for name in ("name", "mode")
            },
        }
        for paths, answer in answers.items()
    ]


def records(site: Site, names: Collection[str], since_wall_ns: int) -> list[JobRecord]:
    """Returns the accounts of the jobs of these names that ended since then, one for each
    job and node, once the jobs have left all nodes."""
    answers: Answers = {}

    def have_left() -> bool:
        answers.update(ask(site))
        here = {job["name"] for answer in answers.values() for job in answer["jobs"]}
        return here.isdisjoint(names)

    comes_true(have_left, PATIENCE_S, AWAIT_S)  # daemons do not publish a job's end
    found: list[JobRecord] = []
    for paths in answers:
        told: dict[str, Any] = request(paths, "history", since_wall_ns=since_wall_ns)
        found += [convert(record, JobRecord, "a record") for record in told["records"]]
    return [record for record in found if record.name in names]


@contextmanager
def mode_changed(site: Site, arm: Arm) -> Iterator[None]:
    """Puts the nodes' daemons into the mode of the arm during the block, if it has one.

    A daemon has its mode from its start on, so a change restarts the daemons.
    """
    mode = arm.mode
    answers = ask(site) if mode else {}
    modes = {answer["class_scheduler"]["mode"] for answer in answers.values()}
    if mode is None or modes == {mode}:
        yield
        return
    if not site.private or len(modes) != 1:
        raise CoschedError(
            f"arm {arm.value}: the nodes' daemons are not in that mode: restart them with "
            f"'cosched up --mode {mode}', or let the bench make a private lab"
        )
    try:
        _restart(site, answers, mode)
        yield
    finally:
        with shielded():
            _restart(site, answers, modes.pop())


def _restart(site: Site, answers: Answers, mode: str) -> None:
    life.restart_daemons(site.run_dir, "--mode", mode)
    for paths, answer in answers.items():
        _put_back(paths, answer["settings"], NAMES)


class Times(NamedTuple):
    """A time between two moments of the wall clock, in nanoseconds."""

    since_wall_ns: int  #: its begin
    until_wall_ns: int  #: its end


@contextmanager
def past_forgotten(site: Site, kept: Times) -> Iterator[None]:
    """Makes the nodes forget, during the block, the jobs that ended outside of ``kept``.

    The nodes that ``remembering`` names do not forget. If this process dies, the nodes
    remember again.
    """
    held = HeldChanges()
    try:
        for host in site.hosts:
            with suppress(CoschedError):
                held.hold(paths_of(site, host), "forget", **kept._asdict())
        yield
    finally:
        with shielded():
            held.close()


def remembering(site: Site) -> tuple[str, ...]:
    """Returns the hosts that a bench cannot make forget ended jobs: their daemons cannot be
    reached from here, or belong to another user."""
    refusing = []
    for host in site.hosts:
        try:
            request(paths_of(site, host), "relearn")
        except CoschedError:
            refusing.append(host)
    return tuple(refusing)


@contextmanager
def settings_changed(site: Site, changes: Mapping[str, str]) -> Iterator[None]:
    """Changes the nodes' settings during the block, as ``cosched config set --hold`` does.

    The changes are held: if this process dies, the nodes' earlier settings return.
    """
    if not changes:
        yield
        return
    if site.remote is not None:
        remotely = site.remote.hold(changes)
        try:
            yield
        finally:
            with shielded():
                remotely.give_back()
        return
    before = ask(site)
    missing = [host for host in site.hosts if paths_of(site, host) not in before]
    if missing:
        raise CoschedError(
            f"cannot change the settings of {', '.join(missing)} from here: name a "
            "command for it with --set-with, or run 'cosched config set' there, and the "
            "bench without --slice, --gmet, --align and the arms gang, messages and paper"
        )
    held = HeldChanges()
    try:
        for paths in before:
            held.hold(paths, "borrow", settings=dict(changes))
        yield
    finally:
        with shielded():
            held.close()


def _put_back(paths: NodePaths, before: Mapping[str, Any], changes: Iterable[str]) -> None:
    old = {**before, "align": "on" if before["align"] else "off"}
    try:
        request(paths, "set", settings={name: old[name] for name in changes})
    except NoDaemon:
        return  # its settings ended with it
