"""Connects the coupling of a domain with our own queue: the native engine, without nodes.

A job of a group is a job of the queue like any other. At its turn it gets nodes and is
reported to the coupling. The pass goes on: a mate that does not answer delays no other job.
When the job yields, its nodes are free again, and a new pass follows.

A driver feeds events of the queue and of other domains, and carries out commands. For a job
of a group it gets ``PrepareOn`` and then ``GoJob`` in place of ``StartJob``. It reports
``JobPrepared`` or ``JobFailedToStart``. ``EndJob`` for a prepared job means: end its tasks,
which have not begun, and report ``JobFailedToStart``.

Limits: the queue needs a backfill policy that takes rules, so not conservative backfill. A
job that has nodes counts in backfill's plans as if it ran from then on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from cosched.core.cluster.coupling import engine_messages
from cosched.core.cluster.coupling.engine_messages import (
    CapacityChanged,
    Found,
    GoJob,
    GroupDisputed,
    HoldJob,
    JobAnnounced,
    JobFailed,
    JobFound,
    JobNotReady,
    JobOver,
    JobPrepared,
    JobQueued,
    JobReady,
    JobRefused,
    PassWanted,
    PeerLost,
    PrepareJob,
    QueueMoved,
    Received,
    RecoveryEnded,
    ReleaseJob,
    Send,
    TryJob,
)
from cosched.core.cluster.coupling.machine import Coupling
from cosched.core.cluster.coupling.state import GroupJob, Stage
from cosched.core.cluster.queue import queue_events
from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.queue_commands import (
    ContinueJob,
    DropJobs,
    EndJob,
    LetIn,
    ReservationHit,
    ReserveJob,
    ResizeJob,
    StartJob,
    SuspendJob,
    WakeAt,
    Why,
    WithdrawResize,
)
from cosched.core.cluster.queue.queue_events import (
    JobCancelled,
    JobEnded,
    JobFailedToStart,
    JobRecovered,
    JobSubmitted,
    ReservedJobBegan,
    ReservedJobReleased,
    RulesChanged,
    Ticked,
)
from cosched.core.cluster.queue.rules import PassRules
from cosched.core.cluster.queue.states import State
from cosched.core.errors import CoschedError
from cosched.core.times import earliest


@dataclass(frozen=True, slots=True)
class PrepareOn:
    """Prepare the job on these nodes: make its tasks, which wait."""

    job: Job  #: the nodes are reserved for it
    nodes: Intervals  #: by number


Event = (
    queue_events.Event
    | JobAnnounced
    | JobPrepared
    | JobRefused
    | Received
    | PeerLost
    | RecoveryEnded
)
Command = (
    StartJob
    | SuspendJob
    | ContinueJob
    | LetIn
    | DropJobs
    | ResizeJob
    | WithdrawResize
    | EndJob
    | PrepareOn
    | GoJob
    | HoldJob
    | ReleaseJob
    | Send
    | GroupDisputed
    | WakeAt
)


class CoupledQueue:
    """Decides when the jobs of a coupled domain start. Deterministic, without a clock."""

    def __init__(self, queue: QueueMachine, coupling: Coupling) -> None:
        if not queue.planner.takes_rules:
            raise CoschedError(
                f"domain {coupling.name}: conservative backfill cannot hold or yield; "
                "choose fcfs, easy or wfp"
            )
        self._queue = queue
        self.coupling = coupling  #: for reading
        self._orders: deque[engine_messages.Command] = deque()  # from the coupling
        self._out: list[Command] = []
        self._now_ns = 0
        self._jobs: dict[JobId, Job] = {}  # those of groups, until they end
        self._prepared: set[JobId] = set()  # PrepareOn was sent, GoJob was not
        self._withdrawn: set[JobId] = set()  # their tasks end, and were not let go
        self._pass_wanted = False
        self._coupling_wake_ns: int | None = None
        self._wake_ns: int | None = None
        self._couple(CapacityChanged(0, queue.place.in_service))

    @property
    def free(self) -> int:
        """Returns the number of nodes that a job could have now."""
        return self._queue.free_for(exclusive=False)

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Handles an event; returns the commands. Raises CoschedError for a job that does
        not exist, or that cannot be in its group; nothing has changed then."""
        self._now_ns = max(self._now_ns, event.now_ns)
        _HANDLERS.get(type(event), CoupledQueue._pass_on)(self, event)
        self._wake_up()
        commands = tuple(self._out)
        self._out.clear()
        return commands

    def _pass_on(self, event: queue_events.Event) -> None:
        """Handles an event of the queue that may change the nodes or the order."""
        self._feed(event)
        self._couple(CapacityChanged(self._now_ns, self._queue.place.in_service))
        self._couple(QueueMoved(self._now_ns))

    # --- jobs -----------------------------------------------------------------------------

    def _member(self, number: JobId) -> GroupJob | None:
        return self.coupling.state.members.get(number)

    def _submit(self, event: JobSubmitted) -> None:
        number = event.job.number
        if self._member(number) is None or not self.coupling.settings.enabled:
            self._feed(event)
            self._couple(QueueMoved(self._now_ns))
            return
        job = replace(event.job, waits_for_mates=True)
        self._feed(replace(event, job=job))
        self._jobs[number] = job
        if self.coupling.state.recovering:
            self._couple(JobFound(self._now_ns, number, Found.WAITS, self._nodes_of(job)))
        else:
            self._couple(JobQueued(self._now_ns, number, self._nodes_of(job)))

    def _nodes_of(self, job: Job) -> int:
        """Returns the number of nodes that a job holds once it has some."""
        return self._queue.place.taken_by(job.size)

    def _recover(self, event: JobRecovered) -> None:
        self._feed(event)
        number = event.job.number
        if self._member(number) is None:
            return
        self._jobs[number] = replace(event.job, waits_for_mates=True)
        found = Found.RUNS
        if event.job.waits_for_mates:
            found = Found.PREPARED
            self._prepared.add(number)
        self._couple(JobFound(self._now_ns, number, found, self._nodes_of(event.job)))

    def _cancel(self, event: JobCancelled) -> None:
        number = event.number
        member = self._member(number)
        announced = member is not None and member.stage is Stage.UNSUBMITTED
        if announced and number not in self._queue:
            self._couple(JobOver(self._now_ns, number))
            return
        if number in self._prepared or number in self._withdrawn:
            self._withdrawn.discard(number)
            self._prepared.add(number)
            self._out.append(EndJob(number, Why.CANCELLED))
            self._over(number)
            return
        waits = self._queue.jobs.state(number) in (State.WAITING, State.RESERVED)
        self._feed(event)
        if waits:
            self._drop(number)
            self._over(number)

    def _fail(self, event: JobFailedToStart) -> None:
        number = event.number
        if number not in self._jobs:
            self._feed(event)
            self._couple(QueueMoved(self._now_ns))
            return
        member = self._member(number)
        over = member is None or member.stage is Stage.OVER
        again = event.requeue and not over
        self._feed(replace(event, requeue=again))
        withdrawn = number in self._withdrawn
        self._prepared.discard(number)
        self._withdrawn.discard(number)
        if not again:
            self._jobs.pop(number)
            self._over(number)
        elif member is not None and member.stage is Stage.RUNNING:
            nodes = self._nodes_of(self._jobs[number])
            self._couple(JobQueued(self._now_ns, number, nodes))
        elif not withdrawn:
            self._couple(JobFailed(self._now_ns, number))
        self._pass_wanted = True

    def _end(self, event: JobEnded) -> None:
        self._feed(event)
        self._drop(event.number)
        self._over(event.number)

    def _drop(self, number: JobId) -> None:
        self._jobs.pop(number, None)
        self._prepared.discard(number)
        self._withdrawn.discard(number)

    def _over(self, number: JobId) -> None:
        member = self._member(number)
        if member is None or member.stage in (Stage.OVER, Stage.UNSUBMITTED):
            self._couple(QueueMoved(self._now_ns))
        else:
            self._couple(JobOver(self._now_ns, number))

    # --- the queue ------------------------------------------------------------------------

    def _tick(self, _event: Ticked) -> None:
        if self._wake_ns is not None and self._wake_ns <= self._now_ns:
            self._wake_ns = None  # this wake-up has come; the next one may be due at once
        wake_ns = self._coupling_wake_ns
        if wake_ns is not None and wake_ns <= self._now_ns:
            self._coupling_wake_ns = None
            self._couple(Ticked(self._now_ns))
        self._pass_wanted = True
        while self._pass_wanted:
            self._pass_wanted = False
            self._pass(self.coupling.rules())

    def _pass(self, rules: PassRules) -> None:
        self._feed(RulesChanged(self._now_ns, rules))
        for job in self._feed(Ticked(self._now_ns)):
            self._couple(JobReady(self._now_ns, job.number))

    def _feed(self, event: queue_events.Event) -> list[Job]:
        """Feeds the queue; returns the jobs for which it has reserved nodes."""
        reserved = []
        hit = []
        for command in self._queue.handle(event):
            if isinstance(command, WakeAt):
                continue  # it is among this machine's own wake-ups
            if isinstance(command, ReserveJob):
                reserved.append(command.job)
            elif isinstance(command, ReservationHit):
                hit.append(command.number)
            else:
                self._out.append(command)
        for number in hit:
            self._lose_reservation(number)
        return reserved

    def _lose_reservation(self, number: JobId) -> None:
        if number in self._prepared:
            self._out.append(EndJob(number, Why.NODE_LOST))
        elif number not in self._withdrawn:
            self._feed(ReservedJobReleased(self._now_ns, number))
            self._couple(JobFailed(self._now_ns, number))

    def _try(self, number: JobId) -> None:
        """Makes a pass without the other jobs of groups, for a mate's domain."""
        job = self._jobs[number]
        queue, now_ns = self._queue, self._now_ns
        ready = False
        waits = queue.jobs.state(number) is State.WAITING
        if waits and job.size <= queue.free_for(exclusive=job.exclusive):
            self._feed(RulesChanged(now_ns, self.coupling.rules(seeking=number)))
            for reserved in self._feed(Ticked(now_ns)):
                ready = ready or reserved.number == number
                self._couple(JobReady(now_ns, reserved.number))
        if not ready:
            expected_ns = queue.place.expected_ns(job.size, now_ns) if waits else None
            self._couple(JobNotReady(now_ns, number, expected_ns, passing=not waits))

    # --- the coupling ---------------------------------------------------------------------

    def _couple(self, event: engine_messages.Event) -> None:
        """Feeds the coupling, and carries out what it orders.

        An order can cause another event; the orders of that event come last."""
        outermost = not self._orders
        self._orders += self.coupling.handle(event)
        while outermost and self._orders:
            self._carry_out(self._orders[0])
            self._orders.popleft()

    def _carry_out(self, command: engine_messages.Command) -> None:
        match command:
            case TryJob():
                self._try(command.number)
            case PrepareJob():
                number = command.number
                self._prepared.add(number)
                self._out.append(
                    PrepareOn(self._jobs[number], self._queue.jobs[number].nodes)
                )
            case GoJob():
                self._go(command)
            case ReleaseJob():
                self._release(command)
            case PassWanted():
                self._pass_wanted = True
            case WakeAt():
                self._coupling_wake_ns = command.at_ns
            case _:
                self._out.append(command)

    def _go(self, command: GoJob) -> None:
        number = command.number
        if self._queue.jobs.state(number) is State.RESERVED:
            self._feed(ReservedJobBegan(self._now_ns, number))
        self._prepared.discard(number)
        self._out.append(command)

    def _release(self, command: ReleaseJob) -> None:
        number = command.number
        if number in self._prepared:
            self._prepared.discard(number)
            self._withdrawn.add(number)
            self._out.append(EndJob(number, Why.WITHDRAWN))
        elif self._queue.jobs.state(number) is State.RESERVED:
            self._feed(ReservedJobReleased(self._now_ns, number))
            self._out.append(command)

    def _wake_up(self) -> None:
        at_once_ns = self._now_ns if self._pass_wanted else None
        wake_ns = earliest((self._queue.wake_ns, self._coupling_wake_ns, at_once_ns))
        if wake_ns != self._wake_ns or self._pass_wanted:
            self._wake_ns = wake_ns
            self._out.append(WakeAt(wake_ns))


_HANDLERS: Mapping[type, Callable[[CoupledQueue, Any], None]]
_HANDLERS = MappingProxyType(
    {
        Ticked: CoupledQueue._tick,
        JobSubmitted: CoupledQueue._submit,
        JobRecovered: CoupledQueue._recover,
        JobCancelled: CoupledQueue._cancel,
        JobFailedToStart: CoupledQueue._fail,
        JobEnded: CoupledQueue._end,
        **dict.fromkeys(
            (JobAnnounced, JobPrepared, JobRefused, Received, PeerLost, RecoveryEnded),
            CoupledQueue._couple,
        ),
    }
)
