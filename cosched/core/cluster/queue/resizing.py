"""Follows the changes of sizes from their orders to their ends.

A change is ordered at a tick. A driver carries it out and reports its end: it is done, or
it is refused and the job has what it had. A change that is late stays open, because the
tasks may carry it out at any time. Its nodes stay with the job, and the plan does without
them. The driver withdraws the order if it can.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.nodes import Intervals, common
from cosched.core.cluster.queue.plans.malleable import Malleable
from cosched.core.cluster.queue.queue_commands import Command, ResizeJob, WithdrawResize
from cosched.core.cluster.queue.queue_events import (
    BoundsChanged,
    JobRecovered,
    ResizeDone,
    ResizeLate,
    ResizeRefused,
    Sensed,
    SizeWanted,
)
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.resizable_run import Wants
from cosched.core.cluster.queue.states import Entry, KnownJobs, State, Step
from cosched.core.cluster.queue.suspending import Suspending
from cosched.core.cluster.queue.time_limits import TimeLimits
from cosched.core.errors import CoschedError


class Resizing:
    """The open changes of a queue whose plan is ``plan``. suspending: its suspensions."""

    def __init__(self, jobs: KnownJobs, limits: TimeLimits, plan: Malleable) -> None:
        self.plan = plan
        self._jobs = jobs
        self._limits = limits
        self._place = plan.elastic
        self.suspending = Suspending(jobs, limits, plan)

    def check_recovery(self, event: JobRecovered) -> None:
        """Checks what is stored about a job before the job is restored. Raises CoschedError
        for an open change that the job cannot have."""
        if event.ordered is None:
            return
        number, found = event.job.number, event.suspension
        if self.suspending.borrows(event):
            raise CoschedError(f"job {number}: has borrowed nodes, so its size is fixed")
        if found is not None and found.for_job is not None:
            raise CoschedError(f"job {number}: is suspended, so its size is fixed")
        self._place.check_reopen(number, event.nodes, event.growths, event.ordered)

    def restore(self, number: JobId, growths: Sequence[Intervals]) -> None:
        """Notes how a restored job came to its nodes."""
        self._place.restore(number, growths)

    def reopen(self, entry: Entry, event: JobRecovered) -> None:
        """Restores the open change of a restored job."""
        assert event.ordered is not None
        change = self._place.reopen(entry.job.number, event.ordered, event.now_ns)
        change.by_ns = event.by_ns
        self._jobs.move(entry, Step.RESIZE_ORDERED, event.now_ns)
        self._follow(entry)

    def order(self, entry: Entry, nodes: Intervals, now_ns: int) -> ResizeJob:
        """Returns the order of a change that the place has begun."""
        number = entry.job.number
        self._jobs.move(entry, Step.RESIZE_ORDERED, now_ns)
        self._follow(entry)
        return ResizeJob(number, nodes, self._place.changes.of(number).by_ns)

    def take(
        self, event: ResizeRefused | ResizeLate | Sensed | BoundsChanged | SizeWanted
    ) -> tuple[Command, ...]:
        """Handles what a driver reports, other than that a change is done (``done``)."""
        match event:
            case ResizeRefused():
                self._refused(event)
            case ResizeLate():
                return self._give_up(event.number, event.now_ns)
            case Sensed():
                self._sensed(event)
            case BoundsChanged():
                self._rebound(event)
            case SizeWanted():
                self._want(event)
        return ()

    def done(self, event: ResizeDone) -> bool:
        """Ends a change as its driver reports it; returns whether the job now has a node
        that was lost meanwhile."""
        number = event.number
        lost = self._place.check_done(number, event.nodes).lost
        entry = self._jobs.step(number, Step.RESIZED, event.now_ns)
        as_planned = self._place.finish(number, event.nodes, event.cost_ns, event.now_ns)
        self._follow(entry)
        self.plan.finished(number, as_planned=as_planned)
        return bool(lost and common(event.nodes, lost))

    def _refused(self, event: ResizeRefused) -> None:
        """Lets a job keep what it had."""
        number = event.number
        self._place.changes.of(number)
        entry = self._jobs.step(number, Step.RESIZE_REFUSED, event.now_ns)
        self._place.refuse(number)
        self._follow(entry)
        self.plan.spare(number, event.now_ns)

    def _follow(self, entry: Entry) -> None:
        """Notes the nodes and the limit of a job: a change never counts against it."""
        entry.nodes = self._place.nodes_of(entry.job.number)
        if entry.limit_ns is not None:
            self._limits.renew(entry)

    def overdue(self, now_ns: int) -> list[Command]:
        """Gives up the changes that should be done by now."""
        due = self._place.changes.due().items()
        late = [number for number, by_ns in due if by_ns <= now_ns]
        return [each for number in late for each in self._give_up(number, now_ns)]

    def lose(self, nodes: Intervals, now_ns: int) -> list[Command]:
        """Gives up the changes to which lost nodes were to come."""
        hit = self._place.changes.lose_arriving(nodes)
        return [each for number in hit for each in self._give_up(number, now_ns)]

    def _give_up(self, number: JobId, now_ns: int) -> tuple[Command, ...]:
        change = self._place.changes.of(number)
        if change.given_up or self._place.running[number].ending:
            return ()
        change.given_up = True
        self._jobs.step(number, Step.RESIZE_LATE, now_ns)
        self.plan.spare(number, now_ns)
        return (WithdrawResize(number),)

    def _rebound(self, event: BoundsChanged) -> None:
        """Gives a job other bounds. Raises CoschedError for a rigid job, and for bounds
        that no job can have here; nothing has changed then."""
        number = event.number
        self._jobs.check(number, Step.REBOUND)
        entry = self._jobs[number]
        before = entry.job
        if not isinstance(before, MalleableJob):
            raise CoschedError(f"job {number}: is rigid: it keeps its number of nodes")
        job = before.within(event.minimum, event.ideal, event.preferred)
        self._place.check(job)
        self._jobs.move(entry, Step.REBOUND, event.now_ns)
        entry.job = job
        if entry.state is State.WAITING:
            self.plan.remove(before)
            self.plan.submit(job)
        elif entry.state is not State.KEPT_BACK:
            self.plan.rebound(job)

    def _want(self, event: SizeWanted) -> None:
        """Lets a running job want other sizes; ignores a job that ended."""
        run = self._place.running.get(event.number)
        if run is not None and run.held:
            wants = Wants(event.minimum, event.ideal, event.wanted, event.predicted)
            self.plan.want(event.number, wants)

    def _sensed(self, event: Sensed) -> None:
        """Fits the model of a job to its measured iterations; ignores a job that ended."""
        run = self._place.running.get(event.number)
        if run is not None:
            run.sense(event.size, event.iterations, event.exec_ns)
