"""Decides which job of a domain starts when, and on which nodes: the machine of the queue.

``QueueMachine`` combines policies: an order (``order``), a plan (``planner``, ``easy``,
``conservative``) and a place (``ledger``, ``rows``). It has no clock; a driver supplies the
time. The controller drives it with real jobs, which are cancelled, fail to start, exceed
their walltime, and run on while the controller is away; a simulator drives it with a log.
The state about other domains is in ``core.cluster.coupling``. A job with mates gets nodes
at its turn, and begins when the coupling lets it go.

A job of a batch (``batches``) may be kept back first: until other jobs have ended, or
while enough tasks of its array are in the queue or run.

The states of a job, and the steps from one to the next, are in ``states``.

Invariants, after every event: no place of a node belongs to two jobs. No job starts on a
node that is out of service, or before it was submitted. A cancelled job does not start.
No job starts before those for which it waits have ended, and no batch has more jobs in the
queue or with nodes than its terms allow.
Each job is ordered to end at most once. Waiting jobs are in the order of arrival,
also after they had nodes. Under fcfs, easy and wfp, the first submitted of equal jobs
starts first.

Source of the policies: Mu'alem and Feitelson (TPDS 2001) for EASY and conservative, Tang
et al. (Cluster 2009 and IPDPS 2011) for WFP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from cosched.core.cluster.queue import exclusive
from cosched.core.cluster.queue.batches import Batches
from cosched.core.cluster.queue.halves.sharing_job import SharingJob
from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.limits import Limits
from cosched.core.cluster.queue.node_events import CHANGES, OBSERVATIONS
from cosched.core.cluster.queue.nodes import Intervals, common, count
from cosched.core.cluster.queue.places.cpu_board import CpuJob
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.plans.malleable import Malleable
from cosched.core.cluster.queue.plans.planner import Planner
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_events import (
    AboutSizes,
    AboutSuspensions,
    BoundsChanged,
    Command,
    DropJobs,
    EndJob,
    Event,
    JobCancelled,
    JobContinued,
    JobEnded,
    JobFailedToStart,
    JobRecovered,
    JobSubmitted,
    JobSuspended,
    LetIn,
    NodesLost,
    OutcomeKnown,
    ReservationHit,
    ReservedJobBegan,
    ReservedJobReleased,
    ReserveJob,
    ResizeDone,
    ResizeLate,
    ResizeRefused,
    RulesChanged,
    Sensed,
    SettingsChanged,
    SharingChanged,
    SizeWanted,
    StartJob,
    SuspendRefused,
    Ticked,
    WakeAt,
    Why,
)
from cosched.core.cluster.queue.resizing import Resizing
from cosched.core.cluster.queue.rules import NO_RULES
from cosched.core.cluster.queue.sizes.causes import reason
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.states import KnownJobs, State, Step
from cosched.core.cluster.queue.waiting import WaitingList, arrival
from cosched.core.errors import CoschedError

#: Jobs whose size is no number of nodes, or may have changed.
_OTHER_SIZES = MalleableJob | SharingJob | CpuJob
_STEPS = MappingProxyType(
    {Why.CANCELLED: Step.CANCELLED, Why.NODE_LOST: Step.NODE_LOST, Why.WALLTIME: Step.LATE}
)


class QueueMachine:
    """Decides about the nodes of one domain. Deterministic, without a clock.

    grace_ns: how long a job may run on after its walltime; None: forever.

    For reading: place, the nodes. planner: the plan. jobs: those that wait, are kept back
    or have nodes. batches: arrays, and jobs that wait for others.
    wake_ns: when the next tick is due without events; None: not at all.
    """

    def __init__(self, place: Place, policy: Policy, grace_ns: int | None = None) -> None:
        self.place = place
        self._rows = place if isinstance(place, Rows) else None
        self._policy = policy
        self._alone = WaitingList()  # exclusive jobs, where nodes take several jobs
        self.jobs = KnownJobs()
        self.batches = Batches()
        self._limits = Limits(self.jobs, place, grace_ns)
        self._use(policy.planner(place))
        self._rules = NO_RULES  # for all passes until they are changed
        self.wake_ns: int | None = None

    def _use(self, planner: Planner) -> None:
        self.planner = planner
        self._resizing: Resizing | None = None
        if isinstance(planner, Malleable):
            self._resizing = Resizing(self.jobs, self._limits, planner)

    # --- for reading ----------------------------------------------------------------------

    @property
    def waiting(self) -> Sequence[Job]:
        """Returns all waiting jobs by arrival, without those that are kept back."""
        planner = self.planner
        if not self._alone and not planner.promised:
            return planner.waiting.jobs
        return sorted([*planner.waiting, *planner.promised, *self._alone], key=arrival)

    def __contains__(self, number: JobId) -> bool:
        return number in self.jobs

    def free_for(self, *, exclusive: bool) -> int:
        """Returns the number of nodes that a job could have now: those of the row that has
        most, or those without any job."""
        return self.place.free_alone if exclusive else self.place.free

    def why_resized(self, number: JobId) -> str:
        """Returns in one line why the open change of a job was ordered."""
        if not isinstance(self.place, Elastic):
            return ""
        return reason(self.place.open_change(number).causes)

    # --- events ---------------------------------------------------------------------------

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Handles an event; returns the commands. Events come in the order of time. Raises
        CoschedError for a step that a job cannot take; nothing has changed then."""
        try:
            handler = _HANDLERS[type(event)]
        except KeyError:
            raise TypeError(f"not an event of a queue: {event!r}") from None
        return handler(self, event)

    def _submit(self, event: JobSubmitted) -> tuple[Command, ...]:
        job, terms = event.job, event.terms
        if job.number in self.jobs:
            self.jobs.check(job.number, Step.SUBMITTED)
        self._check(job)
        if terms is not None:
            self.batches.add(job.number, terms)
            if not terms.let_in:
                self.jobs.enter(job, Step.KEPT_BACK, event.now_ns)
                return ()
        self.jobs.enter(job, Step.SUBMITTED, event.now_ns)
        self._enqueue(job)
        return ()

    def _note_outcome(self, event: OutcomeKnown) -> tuple[Command, ...]:
        never = self.batches.over(event.number, ok=event.ok)
        for number in never:
            self.jobs.step(number, Step.DROPPED, event.now_ns)
        return (DropJobs(tuple(never), event.number),) if never else ()

    def _let_in(self, now_ns: int, commands: list[Command]) -> None:
        """Puts the jobs that are kept back no longer behind all that wait."""
        due = self.batches.due()
        for number in due:
            entry = self.jobs.step(number, Step.LET_IN, now_ns)
            entry.job = replace(entry.job, submit_ns=max(now_ns, entry.job.submit_ns))
            self._enqueue(entry.job)
        if due:
            commands.append(LetIn(tuple(due)))

    def _check(self, job: Job) -> None:
        if job.walltime_ns < 1:
            raise CoschedError(f"job {job.number} has no walltime")
        self.place.check(job)
        if job.waits_for_mates and self.place.runs_alone(job):
            raise CoschedError(
                f"job {job.number}: an exclusive job cannot wait for jobs of other "
                "domains where nodes take several jobs"
            )

    def _enqueue(self, job: Job) -> None:
        if self._waits_alone(job):
            self._alone.add(job)
        else:
            self.planner.submit(job)

    def _waits_alone(self, job: Job) -> bool:
        return job.exclusive and not job.waits_for_mates and self.place.runs_alone(job)

    def _dequeue(self, job: Job) -> None:
        if self._waits_alone(job):
            self._alone.remove(job)
        else:
            self.planner.remove(job)

    def _recover(self, event: JobRecovered) -> tuple[Command, ...]:
        job, number = event.job, event.job.number
        step = Step.RECOVERED_RESERVED if job.waits_for_mates else Step.RECOVERED
        self.jobs.check(number, step)
        self.place.check(job)
        found = count(event.nodes)
        # A malleable job may have got other bounds, and keeps its nodes until it changes.
        # A job that shares nodes has whole nodes, or halves or CPUs of more.
        if found != job.size and not isinstance(job, _OTHER_SIZES):
            raise CoschedError(
                f"job {number} wants {job.size} nodes, but the agents report {found}"
            )
        resizing = self._resizing
        if resizing is not None and resizing.suspending.borrows(event):
            resizing.suspending.adopt(job, event)
        else:
            self.place.adopt(job, event.nodes, event.since_ns, event.halves)
        if resizing is not None and event.growths:
            resizing.restore(number, event.growths)
        entry = self.jobs.enter(job, step, event.now_ns)
        if event.terms is not None:
            self.batches.add(number, event.terms)
        entry.since_ns, entry.nodes = event.since_ns, event.nodes
        if entry.state is State.RUNNING:
            self._limits.begin(entry, event.since_ns)
        if resizing is not None and event.ordered is not None:
            resizing.reopen(entry, event)
        if resizing is not None and event.suspension is not None:
            resizing.suspending.restore(entry, event)
        self.planner.resize()
        return ()

    def _cancel(self, event: JobCancelled) -> tuple[Command, ...]:
        number = event.number
        self.jobs.check(number, Step.CANCELLED)
        before = self.jobs.state(number)
        if before is State.WAITING:
            self._dequeue(self.jobs[number].job)
        elif before is State.RESERVED:
            self._release(number)
        elif before is not State.KEPT_BACK:
            return self._order_end(number, Why.CANCELLED, event.now_ns)
        self.jobs.step(number, Step.CANCELLED, event.now_ns)
        self.batches.remove(number)
        return ()

    def _fail(self, event: JobFailedToStart) -> tuple[Command, ...]:
        return self._leave(event, Step.REQUEUED if event.requeue else Step.FAILED)

    def _leave(
        self, event: JobEnded | JobFailedToStart | ReservedJobReleased, step: Step
    ) -> tuple[Command, ...]:
        """Frees the nodes of a job, which then waits again or is gone."""
        entry = self.jobs.step(event.number, step, event.now_ns)
        self._release(event.number)
        if entry.state is State.WAITING:
            entry.nodes, entry.limit_ns = (), None
            self._enqueue(entry.job)
        else:
            self.batches.remove(event.number)
        return ()

    def _release(self, number: JobId) -> None:
        freed = self.place.release(number)
        if freed is None:
            self.planner.resize()
        else:
            self.planner.end(number, *freed)

    def _begin(self, event: ReservedJobBegan) -> tuple[Command, ...]:
        entry = self.jobs.step(event.number, Step.BEGAN, event.now_ns)
        self.place.restart(event.number, event.now_ns, entry.job.walltime_ns)
        self.planner.resize()
        self._limits.begin(entry, event.now_ns)
        return ()

    def _lose(self, event: NodesLost) -> tuple[Command, ...]:
        commands: list[Command] = []
        self.place.withdraw(event.nodes)
        hit = [n for n, entry in self.jobs.items() if common(entry.nodes, event.nodes)]
        for number in hit:
            if self.jobs.state(number) is State.RESERVED:
                self.jobs.step(number, Step.NODE_LOST, event.now_ns)
                commands.append(ReservationHit(number))
        for number in sorted(hit):
            if self.jobs.state(number) is State.RESERVED:
                continue
            if self.place.has(number, event.nodes):
                commands += self._order_end(number, Why.NODE_LOST, event.now_ns)
        if self._resizing is not None:
            commands += self._resizing.lose(event.nodes, event.now_ns)
        self.planner.resize()
        return tuple(commands)

    def _change_nodes(self, event: Event) -> tuple[Command, ...]:
        CHANGES[type(event)](self.place, event)
        self.planner.resize()
        return ()

    def _observe(self, event: Event) -> tuple[Command, ...]:
        OBSERVATIONS[type(event)](self.place, event)
        return ()

    def _change_settings(self, event: SettingsChanged) -> tuple[Command, ...]:
        planner = event.policy.planner(self.place)
        self._limits.grace_ns, self._policy = event.grace_ns, event.policy
        self.planner.resize()  # promised jobs wait again
        waiting = self.planner.waiting
        self._take_plan(planner)
        for job in waiting:
            planner.submit(job)
        return ()

    def _take_plan(self, planner: Planner) -> None:
        """Replaces the plan by an empty one of the present policy and place."""
        planner.counts.go_on_from(self.planner.counts)
        self._use(planner)
        planner.resize()

    def _change_rules(self, event: RulesChanged) -> tuple[Command, ...]:
        self._rules = event.rules
        return ()

    def _change_sharing(self, event: SharingChanged) -> tuple[Command, ...]:
        """Makes all rows again: puts the running jobs and then the waiting ones into them.
        So exclusive jobs run in all rows, or there is only one."""
        held: dict[JobId, tuple[Job, Intervals, int]] = {}
        waiting = list(self.waiting)
        for number, entry in self.jobs.items():
            walltime_ns = event.walltimes_ns.get(number, entry.job.walltime_ns)
            if entry.state in (State.WAITING, State.KEPT_BACK):
                entry.job = replace(entry.job, walltime_ns=walltime_ns)
                continue
            more_ns = max(0, walltime_ns - entry.job.walltime_ns)
            entry.job = replace(entry.job, walltime_ns=entry.job.walltime_ns + more_ns)
            self._limits.put_off(entry, more_ns)
            held[number] = (entry.job, entry.nodes, entry.since_ns)
        self.place.share(event.rows, held)
        self._take_plan(self._policy.planner(self.place))
        self._alone = WaitingList()
        for job in waiting:
            self._enqueue(self.jobs[job.number].job)
        return ()

    # --- changes of size ------------------------------------------------------------------

    def _resize(self, event: AboutSizes) -> tuple[Command, ...]:
        resizing = self._resizing
        if resizing is None:
            raise CoschedError(f"job {event.number}: its queue changes no sizes")
        if not isinstance(event, ResizeDone):
            return resizing.take(event)
        if resizing.done(event):
            return self._order_end(event.number, Why.NODE_LOST, event.now_ns)
        return ()

    def _suspend(self, event: AboutSuspensions) -> tuple[Command, ...]:
        if self._resizing is None:
            raise CoschedError(f"job {event.number}: its queue suspends no jobs")
        self._resizing.suspending.take(event)
        return ()

    # --- states ---------------------------------------------------------------------------

    def _order_end(self, number: JobId, why: Why, now_ns: int) -> tuple[Command, ...]:
        before = self.jobs[number].state
        self.jobs.step(number, _STEPS[why], now_ns)
        if before is State.ENDING:
            return ()
        if self._resizing is not None:
            self._resizing.plan.ending(number)
        return (EndJob(number, why),)

    # --- decisions ------------------------------------------------------------------------

    def _tick(self, event: Ticked) -> tuple[Command, ...]:
        now_ns = event.now_ns
        commands: list[Command] = []
        if self.batches:
            self._let_in(now_ns, commands)
        if self._limits:
            for number in self._limits.due(now_ns):
                commands += self._order_end(number, Why.WALLTIME, now_ns)
        if self._resizing is not None and self.planner.wake_ns is not None:
            commands += self._resizing.overdue(now_ns)
        rows = self._rows
        if rows is not None:
            self._serve_alone(rows, now_ns, commands)
        for job, spot in self.planner.ready(now_ns, self._rules):
            nodes = self.place.occupy(job, spot, now_ns)
            self._start(job, nodes, now_ns, commands)
        if self._resizing is not None:
            commands += self._resizing.suspending.orders(now_ns)
        if rows is not None:
            self._serve_alone(rows, now_ns, commands)  # it may be their turn now
        wake_ns = self.planner.wake_ns
        if self._limits:
            times = (wake_ns, self._limits.next_ns())
            wake_ns = min((at for at in times if at is not None), default=None)
        if wake_ns != self.wake_ns:
            self.wake_ns = wake_ns
            commands.append(WakeAt(wake_ns))
        return tuple(commands)

    def _start(
        self, job: Job, nodes: Intervals, now_ns: int, commands: list[Command]
    ) -> None:
        number = job.number
        entry = self.jobs[number]
        if entry.state is not State.WAITING:
            assert self._resizing is not None
            commands.append(self._resizing.order(entry, nodes, now_ns))
            return
        entry.nodes, entry.since_ns = nodes, now_ns
        if job.waits_for_mates:
            self.jobs.move(entry, Step.GOT_NODES, now_ns)
            commands.append(ReserveJob(job, nodes))
            return
        self.jobs.move(entry, Step.STARTED, now_ns)
        self._limits.begin(entry, now_ns)
        halves, lender = self.place.halves_of(number), self.place.lender_of(number)
        commands.append(StartJob(job, nodes, halves, lender))

    def _serve_alone(self, rows: Rows, now_ns: int, commands: list[Command]) -> None:
        for job, nodes in exclusive.serve(self._alone, self.planner, rows, now_ns):
            self._start(job, nodes, now_ns, commands)


_HANDLERS: Mapping[type, Callable[[QueueMachine, Any], tuple[Command, ...]]]
_HANDLERS = MappingProxyType(
    {
        JobSubmitted: QueueMachine._submit,
        OutcomeKnown: QueueMachine._note_outcome,
        JobEnded: lambda queue, event: queue._leave(event, Step.ENDED),
        Ticked: QueueMachine._tick,
        JobRecovered: QueueMachine._recover,
        JobCancelled: QueueMachine._cancel,
        JobFailedToStart: QueueMachine._fail,
        ReservedJobBegan: QueueMachine._begin,
        ReservedJobReleased: lambda queue, event: queue._leave(event, Step.RELEASED),
        NodesLost: QueueMachine._lose,
        ResizeDone: QueueMachine._resize,
        ResizeRefused: QueueMachine._resize,
        ResizeLate: QueueMachine._resize,
        Sensed: QueueMachine._resize,
        BoundsChanged: QueueMachine._resize,
        SizeWanted: QueueMachine._resize,
        JobSuspended: QueueMachine._suspend,
        SuspendRefused: QueueMachine._suspend,
        JobContinued: QueueMachine._suspend,
        SettingsChanged: QueueMachine._change_settings,
        SharingChanged: QueueMachine._change_sharing,
        RulesChanged: QueueMachine._change_rules,
        **dict.fromkeys(CHANGES, QueueMachine._change_nodes),
        **dict.fromkeys(OBSERVATIONS, QueueMachine._observe),
    }
)
