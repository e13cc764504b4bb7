"""Coupled domains on a bad network, whose controllers crash and come back.

A ``Site`` is a driver without processes: a store, a queue and tasks that outlive its
controller. Everything happens in one ``World`` of virtual time. Faults are drawn from a
seed until ``World.calm_ns``; then messages arrive and no controller crashes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

import msgspec

from cosched.core.cluster.coupling.coupled_queue import CoupledQueue, PrepareOn
from cosched.core.cluster.coupling.engine_messages import (
    GoJob,
    HoldJob,
    JobAnnounced,
    JobPrepared,
    PeerLost,
    Received,
    RecoveryEnded,
    ReleaseJob,
    Send,
)
from cosched.core.cluster.coupling.groups import Group, Rights
from cosched.core.cluster.coupling.machine import Coupling
from cosched.core.cluster.coupling.mate_messages import AnyMessage
from cosched.core.cluster.coupling.settings import CouplingSettings, Patience
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import EndJob, StartJob, WakeAt
from cosched.core.cluster.queue.queue_events import (
    JobCancelled,
    JobEnded,
    JobFailedToStart,
    JobRecovered,
    JobSubmitted,
    Ticked,
)

PATIENCE = Patience(
    resend_ns=10,
    answer_ns=50,
    probe_ns=100,
    prepare_ns=200,
    doubt_ns=4000,
    retry_ns=60,
    forget_ns=100_000,
)
RELEASE = 1000


@dataclass
class Faults:
    """How often things go wrong, as shares; times in ns."""

    drop: float = 0.0
    twice: float = 0.0
    slowest: int = 5
    crash: float = 0.0
    away: int = 300
    fails: float = 0.0  # preparations
    lost: float = 0.0  # nodes of jobs that are prepared


class World:
    """Virtual time, and the network between sites."""

    def __init__(self, seed: int, faults: Faults, calm_ns: int) -> None:
        self.now_ns = 0
        self.chance = Random(seed)
        self.faults = faults
        self.calm_ns = calm_ns
        self.sites: dict[str, Site] = {}
        self.cut: set[frozenset[str]] = set()
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    @property
    def calm(self) -> bool:
        return self.now_ns >= self.calm_ns

    def at(self, at_ns: int, do: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._heap, (max(at_ns, self.now_ns), self._count, do))

    def run(self, until_ns: int) -> None:
        while self._heap and self._heap[0][0] <= until_ns:
            self.now_ns, _, do = heappop(self._heap)
            do()
        self.now_ns = until_ns

    def happens(self, share: float) -> bool:
        return not self.calm and self.chance.random() < share

    def send(self, by: str, to: str, message: AnyMessage) -> None:
        faults = self.faults
        if frozenset((by, to)) in self.cut or to not in self.sites:
            return
        data = msgspec.json.encode(message)
        for _ in range(1 + self.happens(faults.twice)):
            if self.happens(faults.drop):
                continue
            late = self.chance.randint(1, 1 if self.calm else faults.slowest)
            self.at(self.now_ns + late, lambda: self._arrive(by, to, data))

    def _arrive(self, by: str, to: str, data: bytes) -> None:
        if frozenset((by, to)) not in self.cut:
            message = msgspec.json.decode(data, type=AnyMessage)
            self.sites[to].feed(Received, by, message)


@dataclass
class Tasks:
    """A job as its nodes and the store have it; these outlive a controller."""

    job: Job
    run_ns: int
    group: Group | None = None
    state: str = "waiting"
    nodes: tuple = ()
    began: list[int] = field(default_factory=list)
    withdrawn: bool = False


class Site:
    """A domain: controller, store and nodes."""

    def __init__(
        self, world: World, name: str, nodes: int, settings: CouplingSettings, skew: int
    ) -> None:
        self.world = world
        self.name = name
        self.nodes = nodes
        self.settings = settings
        self.skew = skew  # of its monotonic clock
        self.tasks: dict[int, Tasks] = {}
        self.held: dict[int, int] = {}
        self.longest_hold = 0
        self.crashes = 0
        self.commands: list[object] = []
        self._wake = 0
        world.sites[name] = self
        rights = Rights(same_names=frozenset("abcd"))
        self.rights = rights
        self.queue: CoupledQueue | None = self._make(Coupling(name, settings, rights))
        self.stored = ""

    def _make(self, coupling: Coupling) -> CoupledQueue:
        queue = QueueMachine(Rows(((0, self.nodes - 1),), 1), POLICIES["easy"])
        return CoupledQueue(queue, coupling)

    @property
    def now(self) -> int:
        return self.world.now_ns + self.skew

    @property
    def coupling(self) -> Coupling:
        assert self.queue is not None
        return self.queue.coupling

    def _snapshot(self) -> bytes:
        return self.coupling.snapshot(self.world.now_ns)

    def feed(self, kind: type, *words: object) -> None:
        """Feeds an event if the controller is up."""
        if self.queue is None:
            return
        commands = self.queue.handle(kind(self.now, *words))
        for command in commands:
            if self.world.happens(self.world.faults.crash):
                self.crash()
                return
            self._carry_out(command)

    def crash(self) -> None:
        # A driver stores the state after each event; it has not changed since the last.
        self.stored = self._snapshot()
        self.queue = None
        self.crashes += 1
        away = self.world.chance.randint(1, self.world.faults.away)
        self.world.at(self.world.now_ns + away, self.restart)

    def restart(self) -> None:
        if self.world.chance.random() < 0.3:
            self.skew = self.world.chance.randint(0, 10_000)  # the machine restarted
        coupling = Coupling.restart(
            self.stored, self.settings, self.now, self.world.now_ns, self.rights
        )
        self.queue = self._make(coupling)
        self._wake += 1
        for tasks in self.tasks.values():
            if self.queue is None:
                return
            if tasks.state == "running":
                self.feed(JobRecovered, tasks.job, tasks.nodes, self.now)
            elif tasks.state == "prepared" and not tasks.withdrawn:
                waiting = msgspec.structs.replace(tasks.job, waits_for_mates=True)
                self.feed(JobRecovered, waiting, tasks.nodes, self.now)
            elif tasks.state != "over":
                self._end_hold(tasks.job.number)  # a hold does not outlive the controller
                tasks.state, tasks.withdrawn = "waiting", False
                self.feed(JobSubmitted, tasks.job)
        self.feed(RecoveryEnded, self.world.now_ns)
        self.feed(Ticked)

    # --- users ----------------------------------------------------------------------------

    def submit(self, number: int, size: int, run_ns: int, group: Group | None) -> None:
        """Submits a job. An answer to its user comes only when it is stored."""
        if self.queue is None or self.coupling.state.recovering:
            self.world.at(
                self.world.now_ns + 50, lambda: self.submit(number, size, run_ns, group)
            )
            return
        job = Job(number, size, run_ns, self.world.now_ns)
        self.tasks[number] = Tasks(job, run_ns, group)
        if group is not None:
            self.feed(JobAnnounced, self.world.now_ns, number, group, "ann")
        self.feed(JobSubmitted, job)
        self.feed(Ticked)

    def cancel(self, number: int) -> None:
        if self.queue is None or number not in self.tasks:
            return
        tasks = self.tasks[number]
        if tasks.state == "over":
            return
        if tasks.state == "waiting":
            tasks.state = "over"
            self._end_hold(number)
        self.feed(JobCancelled, number)
        self.feed(Ticked)

    # --- commands -------------------------------------------------------------------------

    def _carry_out(self, command: object) -> None:
        now_ns = self.world.now_ns
        self.commands.append(command)
        match command:
            case Send():
                self.world.send(self.name, command.to, command.message)
            case StartJob():
                self._begin(self.tasks[command.job.number], command.nodes)
            case PrepareOn():
                tasks = self.tasks[command.job.number]
                tasks.state, tasks.nodes = "preparing", command.nodes
                self.held.setdefault(command.job.number, now_ns)
                late = self.world.chance.randint(1, 20)
                self.world.at(now_ns + late, lambda: self._prepared(tasks))
            case GoJob():
                tasks = self.tasks[command.number]
                if tasks.state == "prepared":
                    self._end_hold(command.number)
                    self._begin(tasks, tasks.nodes)
            case EndJob():
                self._end_tasks(self.tasks[command.number], command.why.value)
            case HoldJob():
                self.held.setdefault(command.number, now_ns)
            case ReleaseJob():
                self._end_hold(command.number)
            case WakeAt():
                self._wake += 1
                wake = self._wake
                if command.at_ns is not None:
                    at_ns = command.at_ns - self.skew
                    self.world.at(at_ns, lambda: self._tick(wake))

    def _tick(self, wake: int) -> None:
        if wake == self._wake:
            self.feed(Ticked)

    def _end_hold(self, number: int) -> None:
        since = self.held.pop(number, None)
        if since is not None:
            self.longest_hold = max(self.longest_hold, self.world.now_ns - since)

    def _prepared(self, tasks: Tasks) -> None:
        if tasks.state != "preparing" or tasks.withdrawn:
            return
        number = tasks.job.number
        if self.world.happens(self.world.faults.fails):
            tasks.state = "waiting"
            self._end_hold(number)
            self.feed(JobFailedToStart, number, True)
            self.feed(Ticked)
            return
        tasks.state = "prepared"
        if self.world.happens(self.world.faults.lost):
            late = self.world.chance.randint(1, 2 * self.world.faults.slowest)
            self.world.at(self.world.now_ns + late, lambda: self._lose_nodes(tasks))
        self.feed(JobPrepared, number, f"{self.name}:{number}")
        self.feed(Ticked)

    def _lose_nodes(self, tasks: Tasks) -> None:
        if tasks.state == "prepared" and not tasks.withdrawn:
            tasks.state = "waiting"
            self._end_hold(tasks.job.number)
            self.feed(JobFailedToStart, tasks.job.number, True)
            self.feed(Ticked)

    def _end_tasks(self, tasks: Tasks, why: str) -> None:
        """The nodes end tasks, which takes some time."""
        number = tasks.job.number
        tasks.withdrawn = True
        cancelled = why == "cancelled"

        def gone() -> None:
            if tasks.state == "over" or not tasks.withdrawn:
                return
            tasks.withdrawn = False
            self._end_hold(number)
            tasks.state = "over" if cancelled else "waiting"
            if cancelled:
                self.feed(JobEnded, number)
            else:
                self.feed(JobFailedToStart, number, True)
            self.feed(Ticked)

        self.world.at(self.world.now_ns + self.world.chance.randint(1, 10), gone)

    def _begin(self, tasks: Tasks, nodes: tuple) -> None:
        if tasks.state == "running":
            return  # the order was repeated
        tasks.state, tasks.nodes = "running", nodes
        tasks.began.append(self.world.now_ns)
        self.world.at(self.world.now_ns + tasks.run_ns, lambda: self._over(tasks))

    def _over(self, tasks: Tasks) -> None:
        if tasks.state == "over":
            return
        tasks.state = "over"
        self.feed(JobEnded, tasks.job.number)
        self.feed(Ticked)

    def lose(self, peer: str) -> None:
        self.feed(PeerLost, peer)
