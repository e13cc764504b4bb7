"""Coupled domains of our own in one event loop: real stores, queues and starts, with agents
and mail of the test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from cosched.cluster.coupling.clock import DomainClock
from cosched.cluster.coupling.pairs import Pairs
from cosched.cluster.coupling.snapshot_store import SnapshotStore
from cosched.cluster.engines.native.after_restart import Recovery
from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.node_entries import NodeEntries, NodeState
from cosched.cluster.engines.native.submitting import Submitting
from cosched.cluster.messages import (
    ENDED,
    Chunk,
    End,
    EndNoted,
    Failure,
    NodeEnded,
    Order,
    StartReport,
    SubtreeEnded,
    SubtreePrepared,
)
from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.cluster.submission import Submission
from cosched.config.coupling import CouplingTable
from cosched.config.domain import DomainConfig
from cosched.config.queue import QueueSettings
from cosched.core.cluster.coupling.mate_messages import AnyMessage
from cosched.core.cluster.coupling.state import Stage as MemberStage
from cosched.core.cluster.startup.two_phase import Stage
from cosched.core.config.tables import read

WITHIN_S = 10.0
QUICK = {
    "release": "2s",
    "release_wait": "200ms",
    "again": "100ms",
    "answer": "3s",
    "unknown": "1h",
    "when_down": "yield",
}
NAMES = ("al", "be")


class Crash(BaseException):
    """The controller ends here, as by SIGKILL."""


class Site:
    """A domain ``name`` of ``nodes`` nodes that is coupled with ``others``.

    crash_at: its controller crashes at its so manieth action, counted in ``actions``.
    began: when each start of a job began, by the monotonic clock. mates: the mates that it
    was given.
    """

    def __init__(self, folder, name, others, nodes=2, *, scheme="hold", **coupling):
        self.name, self.others, self.folder = name, others, folder
        folder.mkdir()
        table = {
            "listen": "127.0.0.1:1",
            "domains": {each: f"127.0.0.1:{port}" for port, each in enumerate(others, 2)},
            "same_names": list(others),
            "scheme": scheme,
            **QUICK,
            **coupling,
        }
        self.config = DomainConfig(
            name,
            "10.0.0.1:7570",
            {f"n{i}": f"10.0.0.{i}:7571" for i in range(1, nodes + 1)},
            4,
            queue=QueueSettings(grace_ns=1),
            coupling=read(CouplingTable, table),
        )
        self.sites: dict[str, Site] = {}
        self.tasks: dict[tuple[int, int], str] = {}  # stages of starts on the nodes
        self.since: dict[tuple[int, int], int] = {}
        self.began: dict[int, list[float]] = {}
        self.mates: dict[int, tuple] = {}
        self.run_s: dict[int, float] = {}
        self.prepares: Callable[[int], bool] = lambda _number: True
        self.early: Callable[[], None] = lambda: None  # called before nodes join
        self.actions = 0
        self.crash_at: int | None = None
        self.life = 0
        self.log: list[str] = []
        self.jobs: Jobs | None = None
        self.start()

    def start(self):
        self.life += 1
        self.store = _Store(self, self.life)
        self.memory = _Memory(self, self.life)
        clock = DomainClock()
        coupled = self.config.coupled
        assert coupled is not None
        members = self.members = NodeEntries(self.config)
        self.pairs = Pairs(coupled, self.memory, _Mail(self, self.life), clock)
        send = _Post(self, self.life)
        self.jobs = Jobs(
            self.config, self.store, members, send, self.log.append, self.pairs
        )
        self.submitting = Submitting(self.jobs)
        recovery = Recovery(self.jobs, members, send, self.store.live())
        self.early()
        for member in members.by_number:
            member.state, member.slots = NodeState.UP, 4
            member.agent, member.secret = 1, bytes(32)
            member.starts = self._reports(member.name)
            self.jobs.node_joined(member)
        recovery.resolve()

    def _reports(self, node):
        return tuple(
            StartReport(job, start, stage, self.since.get((job, start), 0), root=True)
            for (job, start), stage in self.tasks.items()
            if node == self.root(job)
        )

    def root(self, number):
        return self.record_of(number).hosts[0]

    def record_of(self, number):
        """Returns a job as it is stored, also while no controller is up."""
        if self.jobs is not None:
            return self.store.find(number)
        store = JobStore(self.folder / "jobs.sqlite", self.config.node_names)
        try:
            return store.find(number)
        finally:
            store.close()

    def act(self, life):
        """Counts an action of a life of the controller, which crashes before the one of
        ``crash_at``. Callbacks of an earlier life cannot act."""
        if life != self.life:
            raise Crash
        self.actions += 1
        if self.actions == self.crash_at:
            self.crash()
            raise Crash

    def crash(self):
        """Ends the controller without a word; its stores are on the disk."""
        self.life += 1
        self.jobs = None
        self.store.close()
        self.memory.close()

    def close(self):
        if self.jobs is not None:
            self.crash()

    # --- users ----------------------------------------------------------------------------

    def record(self, mates="", nodes=1, ppn=1, **more):
        submission = Submission(
            token=f"t{time.monotonic_ns()}",
            name="job",
            argv=("/bin/true",),
            environ={},
            cwd="/",
            nodes=nodes,
            ppn=ppn,
            mates=mates,
            **more,
        )
        state = State.HELD if submission.held else State.QUEUED
        now_ns = self.jobs.clock.now_ns()
        return Record(0, 0, 0, submission, now_ns, state)

    def submit(self, mates="", nodes=1, run_s=0.01, **more):
        """Submits a job; returns its number."""
        number = self.submitting.submit(self.record(mates, nodes, **more)).number
        self.run_s[number] = run_s
        return number

    def state(self, number):
        return self.record_of(number).state

    def stage(self, number):
        member = self.pairs.member(number)
        return None if member is None else member.stage

    # --- the agents -----------------------------------------------------------------------

    def deliver(self, to, message):
        """Takes a message of the controller on its node."""
        if isinstance(message, Chunk):
            if message.number == message.count - 1:
                self._later(self._prepare, message.job, message.start)
        elif isinstance(message, Order):
            self._later(self._begin, message)
        elif isinstance(message, End):
            self._later(self._end, to, message)
        elif isinstance(message, EndNoted):
            self.tasks.pop((message.job, message.start), None)

    def _prepare(self, job, start):
        if self.prepares(job):
            self.tasks[job, start] = Stage.PREPARED.value
            self.report(job, SubtreePrepared(job, start))
        else:
            self.tasks[job, start] = Stage.PREPARING.value

    def _begin(self, order):
        key = order.job, order.start
        if self.tasks.get(key) != Stage.PREPARED.value:
            return
        self.tasks[key] = Stage.GONE.value
        self.since[key] = time.time_ns()
        self.began.setdefault(order.job, []).append(time.monotonic())
        self.mates[order.job] = order.mates
        asyncio.get_running_loop().call_later(
            self.run_s.get(order.job, 0.01), self._over, key, None
        )

    def _end(self, to, message):
        key = message.job, message.start
        if message.direct:
            self.tasks.pop(key, None)
            self._take(to, NodeEnded(*key))
        elif key in self.tasks and self.tasks[key] != ENDED:
            self._over(key, Failure(143, message.reason))

    def _over(self, key, failure):
        if key in self.tasks:
            self.tasks[key] = ENDED
            self.report(key[0], SubtreeEnded(*key, failure))

    def report(self, job, message):
        """Sends a message to the controller; an end is repeated until it is noted."""
        if self.jobs is not None:
            self._take(self.root(job), message)
        if isinstance(message, SubtreeEnded) and (message.job, message.start) in self.tasks:
            asyncio.get_running_loop().call_later(0.05, self.report, job, message)

    def _take(self, sender, message):
        if self.jobs is not None:
            with suppress(Crash):
                self.jobs.take(sender, message)

    def _later(self, call, *words):
        asyncio.get_running_loop().call_soon(call, *words)

    # --- mail -----------------------------------------------------------------------------

    def receive(self, peer, data):
        if self.jobs is not None:
            message = msgspec.msgpack.decode(data, type=AnyMessage)
            with suppress(Crash):
                self.jobs.driver.receive(peer, message)


class _Store(JobStore):
    """The store of jobs, in one life of the controller."""

    def __init__(self, site, life):
        super().__init__(site.folder / "jobs.sqlite", site.config.node_names)
        self._file.run("PRAGMA synchronous = OFF")  # no power is lost here
        self._site, self._life = site, life

    def save(self, record):
        self._site.act(self._life)
        super().save(record)


class _Memory(SnapshotStore):
    """The store of the coupling, in one life of the controller."""

    def __init__(self, site, life):
        super().__init__(site.folder / "mates.sqlite")
        self._file.run("PRAGMA synchronous = OFF")  # no power is lost here
        self._site, self._life = site, life

    def save(self, snapshot):
        self._site.act(self._life)
        super().save(snapshot)


class _Post:
    """Sends to the agents, in one life of the controller."""

    def __init__(self, site, life):
        self._site, self._life = site, life

    def __call__(self, to, message):
        self._site.act(self._life)
        self._site.deliver(to, message)


class _Mail:
    """Sends to other domains, in one life of the controller."""

    def __init__(self, site, life):
        self._site, self._life = site, life

    def send(self, to, message):
        site = self._site
        site.act(self._life)
        data = msgspec.msgpack.encode(message)
        loop = asyncio.get_running_loop()
        loop.call_soon(site.sites[to].receive, site.name, data)


def make_sites(folder, names=NAMES, schemes=("hold", "hold"), **more):
    """Returns coupled domains by name."""
    sites = {}
    for name, scheme in zip(names, schemes, strict=True):
        others = [other for other in names if other != name]
        sites[name] = Site(folder / name, name, others, scheme=scheme, **more)
        sites[name].sites = sites
    return sites


async def until(check, problem):
    """Returns what ``check`` returns, once that is true."""
    end = time.monotonic() + WITHIN_S
    while not (found := check()):
        assert time.monotonic() < end, problem
        await asyncio.sleep(0.005)
    return found


def has_nodes(site, number):
    """Whether a job with mates is ready, or further."""
    return site.stage(number) in (
        MemberStage.HOLDING,
        MemberStage.PREPARING,
        MemberStage.PREPARED,
        MemberStage.RUNNING,
    )
