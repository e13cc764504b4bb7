"""Runs the queue of a live domain, with real jobs, users and nodes.

Jobs are cancelled, fail to start, exceed their walltime, and run on while the controller is
away. Nodes are lost, drained and return. ``DomainQueue`` translates all this for its
``QueueScheduler``, which decides as it does for the jobs of a log.

Invariants, after every event:

- No node belongs to two jobs.
- No job starts on a node that is out of service.
- A cancelled job does not start.
- Each job is ordered to end at most once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from heapq import heappop, heappush

from msgspec import Struct, structs

from cosched.core.cluster.queue import messages as queue
from cosched.core.cluster.queue.ledger import OVERRUN_NS, Allocation
from cosched.core.cluster.queue.messages import Job, JobId, StartJob, WakeAt
from cosched.core.cluster.queue.nodes import FreeNodes, Intervals, count
from cosched.core.cluster.queue.planner import PassRules
from cosched.core.cluster.queue.scheduler import Policy, QueueScheduler
from cosched.core.errors import CoschedError


class Why(Enum):
    """Why a job must end. withdrawn: it was prepared, and waits in the queue again."""

    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"
    NODE_LOST = "node lost"
    WALLTIME = "walltime"


class JobCancelled(Struct, frozen=True):
    """The user or an operator does not want the job any more."""

    now_ns: int
    number: JobId


class JobFailedToStart(Struct, frozen=True):
    """A job did not begin on its nodes, which are free again. requeue: it waits again.
    A gated job may also have lost its reservation."""

    now_ns: int
    number: JobId
    requeue: bool


class JobRecovered(Struct, frozen=True):
    """After a restart the agents report a job that runs since ``since_ns``; a gated job has
    its nodes since then, and has not begun."""

    now_ns: int
    job: Job
    nodes: Intervals
    since_ns: int


class NodesLost(Struct, frozen=True):
    """Nodes do not answer any more."""

    now_ns: int
    nodes: Intervals


class NodesDrained(Struct, frozen=True):
    """An operator takes nodes out of service; their jobs run on."""

    now_ns: int
    nodes: Intervals


class NodesJoined(Struct, frozen=True):
    """Nodes are in service, for the first time or again."""

    now_ns: int
    nodes: Intervals


class SettingsChanged(Struct, frozen=True):
    """An operator wants another policy, or another grace for jobs that start later."""

    now_ns: int
    policy: Policy
    grace_ns: int | None


class RulesChanged(Struct, frozen=True):
    """Passes have these exceptions from the order from now on."""

    now_ns: int
    rules: PassRules


class ReservationHit(Struct, frozen=True):
    """A node that is reserved for a gated job is lost: release the reservation."""

    number: JobId


class SharingChanged(Struct, frozen=True):
    """An operator wants ``rows`` jobs on a node at most. walltimes_ns: from now on, of the
    jobs that wait or run. No running job gets a shorter one."""

    now_ns: int
    rows: int
    walltimes_ns: Mapping[JobId, int]


class EndJob(Struct, frozen=True):
    """End a running job; its end will be reported."""

    number: JobId
    why: Why


Event = (
    queue.Event
    | JobCancelled
    | JobFailedToStart
    | JobRecovered
    | NodesLost
    | NodesDrained
    | NodesJoined
    | SettingsChanged
    | RulesChanged
)
Command = queue.Command | EndJob | ReservationHit


@dataclass(slots=True)
class Running:
    """A running job. limit_ns: when it must end; None: never. ending: it was ordered to
    end. begun: False if it only has reserved nodes."""

    job: Job
    since_ns: int
    limit_ns: int | None
    ending: bool = False
    begun: bool = True

    def at_least(self, walltime_ns: int) -> Running:
        """Returns it with this walltime if that is longer; its limit moves, too."""
        more_ns = max(0, walltime_ns - self.job.walltime_ns)
        job = structs.replace(self.job, walltime_ns=self.job.walltime_ns + more_ns)
        limit_ns = None if self.limit_ns is None else self.limit_ns + more_ns
        return replace(self, job=job, limit_ns=limit_ns)


class DomainQueue:
    """Decides when the jobs of a live domain start, and which must end.

    grace_ns: how long a job may run on after its walltime; None: forever.
    """

    def __init__(
        self,
        nodes: Intervals,
        policy: Policy,
        grace_ns: int | None,
        overrun_ns: int = OVERRUN_NS,
        allocation: Allocation = FreeNodes,
    ) -> None:
        self._scheduler = QueueScheduler(nodes, policy, overrun_ns, allocation)
        self._running: dict[JobId, Running] = {}
        self._limits: list[tuple[int, JobId]] = []  # heap: when walltime and grace are over
        self._grace_ns = grace_ns
        self._planned_ns: int | None = None  # the wake-up that the scheduler wants
        self._wake_ns: int | None = None

    @property
    def scheduler(self) -> QueueScheduler:
        """Returns the queue's scheduler, for reading."""
        return self._scheduler

    def running(self, number: JobId) -> Running:
        """Returns a running job, or one that has reserved nodes, for reading."""
        job = self._scheduler.reserved.get(number)
        if job is None:
            return self._running[number]
        end_ns = next(end_ns for each, end_ns in self.ends() if each == number)
        return Running(job, end_ns - job.walltime_ns, None, begun=False)

    def found(self, event: JobRecovered) -> Running:
        """Returns a job that agents report. Raises CoschedError for a wrong size."""
        job = event.job
        if count(event.nodes) != job.size:
            raise CoschedError(
                f"job {job.number} wants {job.size} nodes, but the agents "
                f"report {count(event.nodes)}"
            )
        limit_ns = self._limit_ns(job, event.since_ns)
        return Running(job, event.since_ns, limit_ns, begun=not job.gated)

    def adopt(self, running: Running, nodes: Intervals) -> None:
        """Takes a job of another queue, which runs on these nodes. They must be free."""
        if not running.begun:
            self._scheduler.reserve_exactly(running.job, nodes, running.since_ns)
            return
        self._scheduler.occupy_exactly(running.job, nodes, running.since_ns)
        self._keep(replace(running))

    @property
    def takes_rules(self) -> bool:
        """Returns whether passes can have exceptions from the order."""
        return self._scheduler.planner.takes_rules

    def waits(self, number: JobId) -> bool:
        """Returns whether a job waits in the queue."""
        return self._scheduler.waits(number)

    def is_reserved(self, number: JobId) -> bool:
        """Returns whether a gated job has nodes and has not begun."""
        return number in self._scheduler.reserved

    def expected_ns(self, size: int, now_ns: int) -> int:
        """Returns when ``size`` nodes are expected to be free if no job starts."""
        return self._scheduler.expected_ns(size, now_ns)

    def ends(self) -> list[tuple[JobId, int]]:
        """Returns the running jobs and when they are expected to end, in ns."""
        return self._scheduler.ends()

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Takes one event and returns the commands. Raises CoschedError for a job that does
        not exist; nothing has changed then."""
        match event:
            case queue.Ticked():
                return self._tick(event.now_ns)
            case queue.JobSubmitted():
                return self._passed_on(event)
            case queue.JobEnded():
                if event.number not in self._scheduler.reserved:
                    self._expect_running(event.number)
                    del self._running[event.number]
                return self._passed_on(event)
            case queue.ReservedJobBegan():
                job = self._scheduler.reserved[event.number]
                self._note_start(job, event.now_ns)
                return self._passed_on(event)
            case queue.ReservedJobReleased():
                return self._passed_on(event)
            case RulesChanged():
                self._scheduler.rules = event.rules
                return ()
            case JobCancelled():
                return self._cancel(event.number, event.now_ns)
            case JobFailedToStart():
                self._fail(event)
                return ()
            case JobRecovered():
                self.adopt(self.found(event), event.nodes)
                return ()
            case NodesLost():
                return self._lose(event.nodes)
            case NodesDrained():
                self._scheduler.withdraw(event.nodes)
                return ()
            case NodesJoined():
                self._scheduler.admit(event.nodes)
                return ()
            case SettingsChanged():
                self._grace_ns = event.grace_ns
                self._scheduler.adopt(event.policy)
                return ()

    def _passed_on(self, event: queue.Event) -> tuple[Command, ...]:
        """Passes an event on; the walltimes add to the wake-up that the scheduler wants."""
        commands: list[Command] = []
        for command in self._scheduler.handle(event):
            if isinstance(command, WakeAt):
                self._planned_ns = command.at_ns
                continue
            if isinstance(command, StartJob):
                self._note_start(command.job, event.now_ns)
            commands.append(command)
        return tuple(commands)

    def _tick(self, now_ns: int) -> tuple[Command, ...]:
        commands: list[Command] = []
        while self._limits and self._limits[0][0] <= now_ns:
            commands += self._end(heappop(self._limits)[1], Why.WALLTIME)
        commands += self._passed_on(queue.Ticked(now_ns))
        while self._limits and self._is_over(self._limits[0]):
            heappop(self._limits)
        wanted = [self._limits[0][0]] if self._limits else []
        wanted += [self._planned_ns] if self._planned_ns is not None else []
        wake_ns = min(wanted, default=None)
        if wake_ns != self._wake_ns:
            self._wake_ns = wake_ns
            commands.append(WakeAt(wake_ns))
        return tuple(commands)

    def _note_start(self, job: Job, since_ns: int) -> None:
        self._keep(Running(job, since_ns, self._limit_ns(job, since_ns)))

    def _limit_ns(self, job: Job, since_ns: int) -> int | None:
        if self._grace_ns is None:
            return None
        return since_ns + job.walltime_ns + self._grace_ns

    def _keep(self, running: Running) -> None:
        self._running[running.job.number] = running
        if running.limit_ns is not None:
            heappush(self._limits, (running.limit_ns, running.job.number))

    def _is_over(self, limit: tuple[int, JobId]) -> bool:
        """Returns whether a limit has no effect: its job ended, or must end already."""
        running = self._running.get(limit[1])
        return running is None or running.ending

    def _lose(self, nodes: Intervals) -> tuple[Command, ...]:
        # A node that was drained before is out of service already.
        reserved = self._scheduler.reserved_on(nodes)
        commands: list[Command] = [ReservationHit(number) for number in reserved]
        for number in self._scheduler.withdraw(nodes):
            if number not in reserved:
                commands += self._end(number, Why.NODE_LOST)
        return tuple(commands)

    def _end(self, number: JobId, why: Why) -> tuple[Command, ...]:
        running = self._running.get(number)
        if running is None or running.ending:
            return ()
        running.ending = True
        return (EndJob(number, why),)

    def _cancel(self, number: JobId, now_ns: int) -> tuple[Command, ...]:
        waiting = self._scheduler.job(number)
        if waiting is not None:
            self._scheduler.remove(waiting)
            return ()
        if number in self._scheduler.reserved:
            self._scheduler.handle(queue.JobEnded(now_ns, number))
            return ()
        self._expect_running(number)
        return self._end(number, Why.CANCELLED)

    def _fail(self, event: JobFailedToStart) -> None:
        if event.number in self._scheduler.reserved:
            kind = queue.ReservedJobReleased if event.requeue else queue.JobEnded
            self._scheduler.handle(kind(event.now_ns, event.number))
            return
        self._expect_running(event.number)
        running = self._running.pop(event.number)
        self._scheduler.handle(queue.JobEnded(event.now_ns, event.number))
        if event.requeue and not running.ending:
            self._scheduler.handle(queue.JobSubmitted(event.now_ns, running.job))

    def _expect_running(self, number: JobId) -> None:
        if number not in self._running:
            raise CoschedError(f"job {number}: neither waits nor runs")
