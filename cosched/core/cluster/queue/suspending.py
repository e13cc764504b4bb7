"""Follows the suspensions of jobs from their orders to their ends.

A plan chooses the job that stops, and the driver confirms that its tasks are stopped. Then
another job borrows its nodes. When no job has them any more, the suspended one is ordered
to continue, and runs once the driver confirms it. A job that refuses keeps its nodes and
runs on; it is spared for some time.

The time in which a job is suspended does not count against its limit.
"""

from __future__ import annotations

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import without
from cosched.core.cluster.queue.plans.malleable import Malleable
from cosched.core.cluster.queue.queue_commands import Command, ContinueJob, SuspendJob
from cosched.core.cluster.queue.queue_events import (
    AboutSuspensions,
    JobContinued,
    JobRecovered,
    JobSuspended,
    SuspendRefused,
)
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun, Stop
from cosched.core.cluster.queue.states import Entry, KnownJobs, State, Step
from cosched.core.cluster.queue.time_limits import TimeLimits
from cosched.core.errors import CoschedError


class Suspending:
    """The suspended jobs of a queue whose plan is ``plan``."""

    def __init__(self, jobs: KnownJobs, limits: TimeLimits, plan: Malleable) -> None:
        self._jobs = jobs
        self._limits = limits
        self._plan = plan
        self._place = plan.elastic

    def orders(self, now_ns: int) -> list[Command]:
        """Returns the orders of the last pass."""
        lending, commands = self._plan.lending, list[Command]()
        for number in lending.to_continue:
            self._jobs.step(number, Step.CONTINUE_ORDERED, now_ns)
            commands.append(ContinueJob(number))
        for number in lending.to_suspend:
            self._jobs.step(number, Step.SUSPEND_ORDERED, now_ns)
            commands.append(SuspendJob(number, self._stop_of(number).for_job))
        lending.to_continue.clear()
        lending.to_suspend.clear()
        return commands

    def take(self, event: AboutSuspensions) -> None:
        """Handles the answer to an order. Raises CoschedError if there was no such order;
        nothing has changed then."""
        number, now_ns = event.number, event.now_ns
        match event:
            case JobSuspended():
                self._jobs.step(number, Step.SUSPENDED, now_ns)
                self._run_of(number).suspended(now_ns)
            case SuspendRefused():
                self._jobs.step(number, Step.SUSPEND_REFUSED, now_ns)
                self._run_of(number).stop = None
                self._plan.spare(number, now_ns)
            case JobContinued():
                entry = self._jobs.step(number, Step.CONTINUED, now_ns)
                self._limits.put_off(entry, self._place.continued(number, now_ns))
                self._plan.rest(number, now_ns)
        self._plan.resize()

    def borrows(self, event: JobRecovered) -> bool:
        """Returns whether a restored job has nodes of a job that is suspended now."""
        lender = event.lender
        run = None if lender is None else self._place.running.get(lender)
        if lender is None or run is None or run.stop is None:
            return False
        return not without(event.nodes, self._place.nodes_of(lender))

    def adopt(self, job: Job, event: JobRecovered) -> None:
        """Restores a job on nodes of a suspended one."""
        assert event.lender is not None
        self._place.adopt_loan(job, event.nodes, event.since_ns, event.lender)

    def restore(self, entry: Entry, event: JobRecovered) -> None:
        """Restores the suspensions of a restored job, which runs by its state."""
        found, number, now_ns = event.suspension, entry.job.number, event.now_ns
        assert found is not None
        self._place.recount(number, found.times, found.total_ns)
        self._limits.put_off(entry, found.total_ns)
        if found.for_job is None:
            return
        run = self._run_of(number)
        run.stop = Stop(found.for_job, found.since_ns, found.continues)
        self._jobs.move(entry, Step.SUSPEND_ORDERED, now_ns)
        if found.since_ns is not None:
            self._jobs.move(entry, Step.SUSPENDED, now_ns)
        if entry.state is State.SUSPENDED and found.continues:
            self._jobs.move(entry, Step.CONTINUE_ORDERED, now_ns)

    def _run_of(self, number: JobId) -> ResizableRun:
        return self._place.running[number]

    def _stop_of(self, number: JobId) -> Stop:
        stop = self._run_of(number).stop
        if stop is None:
            raise CoschedError(f"job {number}: is not suspended")
        return stop
