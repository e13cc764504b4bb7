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
from typing import Any, get_args

from msgspec.structs import replace

from cosched.core.cluster.queue.after_restart import recover
from cosched.core.cluster.queue.batches import Batches
from cosched.core.cluster.queue.exclusive import Exclusive
from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.node_events import CHANGES, OBSERVATIONS
from cosched.core.cluster.queue.nodes import Intervals, common
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.plans.malleable import Malleable
from cosched.core.cluster.queue.plans.planner import Planner
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_commands import (
    Command,
    DropJobs,
    EndJob,
    LetIn,
    ReservationHit,
    ReserveJob,
    StartJob,
    WakeAt,
    Why,
)
from cosched.core.cluster.queue.queue_events import (
    AboutSizes,
    AboutSuspensions,
    Event,
    JobCancelled,
    JobEnded,
    JobFailedToStart,
    JobRecovered,
    JobSubmitted,
    NodesLost,
    OutcomeKnown,
    ReservedJobBegan,
    ReservedJobReleased,
    ResizeDone,
    RulesChanged,
    SettingsChanged,
    SharingChanged,
    Ticked,
)
from cosched.core.cluster.queue.resizing import Resizing
from cosched.core.cluster.queue.rules import NO_RULES
from cosched.core.cluster.queue.sizes.causes import reason
from cosched.core.cluster.queue.states import KnownJobs, State, Step
from cosched.core.cluster.queue.time_limits import TimeLimits
from cosched.core.cluster.queue.waiting import arrival
from cosched.core.errors import CoschedError
from cosched.core.times import earliest

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
        self._policy = policy
        self._exclusive = Exclusive(place) if isinstance(place, Rows) else None
        self.jobs = KnownJobs()
        self.batches = Batches()
        self._limits = TimeLimits(self.jobs, place, grace_ns)
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
        planner, exclusive = self.planner, self._exclusive
        alone = exclusive.waiting.jobs if exclusive is not None else []
        if not alone and not planner.promised:
            return planner.waiting.jobs
        return sorted([*planner.waiting, *planner.promised, *alone], key=arrival)

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
        return reason(self.place.changes.of(number).causes)

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
        self.place.check_needs(job)
        if job.waits_for_mates and self.place.runs_alone(job):
            raise CoschedError(
                f"job {job.number}: an exclusive job cannot wait for jobs of other "
                "domains where nodes take several jobs"
            )

    def _enqueue(self, job: Job) -> None:
        if self._exclusive is not None and self._exclusive.takes(job):
            self._exclusive.waiting.add(job)
        else:
            self.planner.submit(job)

    def _dequeue(self, job: Job) -> None:
        if self._exclusive is not None and self._exclusive.takes(job):
            self._exclusive.waiting.remove(job)
        else:
            self.planner.remove(job)

    def _recover(self, event: JobRecovered) -> tuple[Command, ...]:
        recover(event, self.jobs, self.place, self._limits, self._resizing)
        if event.terms is not None:
            self.batches.add(event.job.number, event.terms)
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
        waiting = list(self.waiting)
        self._limits.give_walltimes(event.walltimes_ns)
        self.place.share(event.rows, self.jobs.with_nodes())
        self._take_plan(self._policy.planner(self.place))
        if self._exclusive is not None:
            self._exclusive.clear()
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
        if self._exclusive is not None:
            self._serve(self._exclusive, now_ns, commands)
        for job, spot in self.planner.ready(now_ns, self._rules):
            nodes = self.place.occupy(job, spot, now_ns)
            self._start(job, nodes, now_ns, commands)
        if self._resizing is not None:
            commands += self._resizing.suspending.orders(now_ns)
        if self._exclusive is not None:
            self._serve(self._exclusive, now_ns, commands)  # it may be their turn now
        wake_ns = self.planner.wake_ns
        if self._limits:
            wake_ns = earliest((wake_ns, self._limits.next_ns()))
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

    def _serve(self, exclusive: Exclusive, now_ns: int, commands: list[Command]) -> None:
        for job, nodes in exclusive.serve(self.planner, self._rules, now_ns):
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
        SettingsChanged: QueueMachine._change_settings,
        SharingChanged: QueueMachine._change_sharing,
        RulesChanged: QueueMachine._change_rules,
        **dict.fromkeys(get_args(AboutSizes), QueueMachine._resize),
        **dict.fromkeys(get_args(AboutSuspensions), QueueMachine._suspend),
        **dict.fromkeys(CHANGES, QueueMachine._change_nodes),
        **dict.fromkeys(OBSERVATIONS, QueueMachine._observe),
    }
)
