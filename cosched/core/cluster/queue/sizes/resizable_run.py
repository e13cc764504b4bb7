"""Models a running job whose number of nodes changes, and its expected end.

During one pass the planned size of a job may change several times. Only the last size is
ordered, as one change with the cost of one. Until then ``size`` is the plan and ``held`` is
the number of nodes that the job has. From the order on, ``held`` is the ordered size, and
the expected end is that of a change at once. Its end brings the truth (``finish``), or the
job goes on as it was (``refuse``).

A job of fixed size is a run whose minimum is its ideal.
"""

from __future__ import annotations

from msgspec import Struct

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.sizes.execution import FREE, Execution, linear
from cosched.core.cluster.queue.sizes.fit import FittedExecution, fit
from cosched.core.cluster.queue.sizes.malleable_job import (
    MalleableJob,
    least_nodes,
    preferred_nodes,
)
from cosched.core.cluster.queue.sizes.prediction import (
    PredictedExecution,
    Prediction,
    predicted,
)
from cosched.core.units import NS_PER_S

#: How many changes a job makes after wishes of its program, without a pause between them.
WISHES_AT_ONCE = 8
#: After those, a job makes one change in this time if its program goes on wishing.
WISH_PAUSE_NS = 10 * NS_PER_S

#: The most by which the costs of a job's changes put off its limit, as a share of its
#: walltime.
CHANGES_SHARE = 0.5


class Before(Struct, frozen=True, gc=False):
    """A run as it was when its change was ordered."""

    ordered_ns: int  #: when the change was ordered
    held: int  #: its nodes then
    end_ns: int  #: its expected end with them
    since_ns: int  #: it stood still until then
    harvests: int  #: the changes that had taken nodes from it
    cost_ns: int  #: the expected cost of the change


class Stop(Struct, gc=False):
    """A suspension of a run that is not over."""

    for_job: JobId  #: the job that borrows its nodes, or is to
    since_ns: int | None = None  #: when its tasks were stopped; None: not confirmed
    continues: bool = False  #: it was ordered to continue


class Wants(Struct, frozen=True, gc=False):
    """What the program of a run wants, in nodes; 0: not known."""

    minimum: int  #: the least that it needs
    ideal: int  #: at which it is fastest
    wanted: int  #: for which it asks
    predicted: Prediction = ()  #: the time of an iteration by nodes, ns; (): not predicted


class ResizableRun:
    """A job with nodes. ``held`` is 0 until the job starts.

    harvests: the changes that took nodes from it. end_ns: its expected end with ``held``.
    allowed_ns: how long it may run at least, from its start on.
    execution, cost: the models of its job, until measured ones replace them. before: what
    it was before its open change; None without one. spared_ns: no change begins before.
    refuses: it refused its last change, or was late with it.
    ending: it was ordered to end. predicted: the model of its program; None without one.
    reported: its end was once calculated by a model of its program, predicted or fitted.
    wants: what its program wants. wished: it has wanted
    something else since the last change. paced_ns: each change after a wish puts it off by
    WISH_PAUSE_NS. stood_ns: how long it stood still for changes that are done.
    stop: its suspension; None: its tasks run. suspensions: how often it was suspended.
    suspended_ns: how long, in all, until it continued last. lender: the suspended job whose
    nodes it has; None: its nodes are its own.
    """

    __slots__ = (
        "_sensed", "allowed_ns", "before", "cost", "end_ns", "ending", "execution",
        "fitted", "harvests", "held", "ideal", "job", "lender", "minimum", "paced_ns",
        "predicted", "refuses", "reported", "since_ns", "size", "spared_ns", "start_ns",
        "stood_ns", "stop", "suspended_ns", "suspensions", "wants", "wished",
    )  # fmt: skip

    def __init__(self, job: Job, size: int, now_ns: int) -> None:
        self.job = job
        self.ideal = job.size
        self.size = size
        self.held = 0
        self.harvests = 0
        self.start_ns = now_ns
        self.since_ns = now_ns  # it stands still until then
        self.end_ns = now_ns
        self.allowed_ns = 0
        if isinstance(job, MalleableJob):
            self.minimum = job.minimum
            self.execution: Execution = job.execution
            self.cost = job.cost
        else:
            self.minimum, self.execution, self.cost = job.size, linear, FREE
        self.fitted: FittedExecution | None = None
        self.predicted: PredictedExecution | None = None
        self.reported = False
        self.wants: Wants | None = None
        self.wished = False
        self.paced_ns = now_ns
        self.before: Before | None = None
        self.spared_ns = now_ns
        self.refuses = False
        self.stood_ns = 0
        self.ending = False
        self.stop: Stop | None = None
        self.suspensions = 0
        self.suspended_ns = 0
        self.lender: JobId | None = None
        # size -> iterations and their time; most runs report none
        self._sensed: dict[int, tuple[int, int]] | None = None

    @property
    def preferred(self) -> int:
        """Returns the nodes beyond which it grows only while no job waits."""
        return max(self.minimum, min(preferred_nodes(self.job), self.ideal))

    @property
    def surplus(self) -> int:
        """Returns the planned nodes beyond those that it prefers."""
        return max(0, self.size - self.preferred)

    @property
    def share(self) -> float:
        """Returns the planned size as a share of the ideal."""
        return self.size / self.ideal

    def age_ns(self, now_ns: int) -> int:
        """Returns the time since its start."""
        return now_ns - self.start_ns

    def is_steady(self, now_ns: int) -> bool:
        """Returns whether a change of its size may begin now."""
        if self.before is not None or self.is_in_loan or self.ending:
            return False
        return now_ns >= self.spared_ns

    @property
    def is_in_loan(self) -> bool:
        """Returns whether it is suspended, or has nodes of a suspended job."""
        return self.stop is not None or self.lender is not None

    def left_ns(self, now_ns: int) -> int:
        """Returns the time until its end with the planned size."""
        return self.end_with_ns(self.size, now_ns) - now_ns

    def end_with_ns(self, size: int, now_ns: int) -> int:
        """Returns its end if it ran on with ``size`` nodes, including the cost."""
        if not self.held:
            stretch = self.execution(size, self.ideal)
            return now_ns + max(1, round(self.job.walltime_ns * stretch))
        if size == self.held:
            return self.end_ns
        begin_ns = max(now_ns, self.since_ns)
        left_ns = self._left_with_ns(size, self.held, self.end_ns - begin_ns)
        return self._bounded(begin_ns + self.cost.ns(self.held, size), left_ns)

    def _bounded(self, begin_ns: int, left_ns: int) -> int:
        """Returns the end of a job that has so much time left at ``begin_ns``. It is not
        after the job's limit if the program has reported times: false ones would otherwise
        put off what is planned for other jobs, without end."""
        end_ns = begin_ns + left_ns
        if not self.reported:
            return end_ns
        limit_ns = self.start_ns + max(self.allowed_ns, self.longest_ns)
        return min(end_ns, max(begin_ns, limit_ns))

    def _left_with_ns(self, size: int, held: int, held_left_ns: int) -> int:
        """Returns the time left with ``size`` nodes if it is ``held_left_ns`` with
        ``held``. That is negative for a live job that exceeds its expected end."""
        stretch = self.execution(size, self.ideal)
        return round(max(0, held_left_ns) * stretch / self.execution(held, self.ideal))

    @property
    def is_within(self) -> bool:
        """Returns whether the planned size is within its bounds."""
        return self.minimum <= self.size <= self.ideal

    @property
    def longest_ns(self) -> int:
        """Returns the most time that its changes can give it, from its start on: that of
        its job's minimum by the linear model, and a share for their costs. A program that
        reports other times or costs gets no more."""
        job = self.job
        least_ns = round(job.walltime_ns * linear(least_nodes(job), job.size))
        stood_ns = min(self.stood_ns, round(job.walltime_ns * CHANGES_SHARE))
        return least_ns + stood_ns + self.suspended_ns

    # --- suspensions ----------------------------------------------------------------------

    def borrow(self, lender: JobId) -> None:
        """Lets it have nodes of a suspended job, and keep their number."""
        self.lender = lender
        self.minimum = self.ideal = self.size

    def suspended(self, now_ns: int) -> None:
        """Notes that its tasks are stopped."""
        assert self.stop is not None
        self.stop.since_ns = now_ns

    def continued(self, now_ns: int) -> int:
        """Notes that its tasks run again; returns how long they were stopped."""
        stop, self.stop = self.stop, None
        assert stop is not None
        since_ns = now_ns if stop.since_ns is None else stop.since_ns
        self.lose(now_ns - since_ns)
        return now_ns - since_ns

    def lose(self, stopped_ns: int) -> None:
        """Puts off its end by a time in which it was suspended."""
        self.suspended_ns += stopped_ns
        self.end_ns += stopped_ns
        if self.allowed_ns:
            self.allowed_ns += stopped_ns

    # --- changes --------------------------------------------------------------------------

    def rebound(self, job: MalleableJob) -> None:
        """Takes other bounds; its nodes and its expected end stay."""
        self.job = job
        self._narrow()

    def want(self, wants: Wants) -> None:
        """Takes what its program wants, within the bounds of its job."""
        self.wants, self.wished = wants, True
        self.predicted = predicted(wants.predicted)
        self._choose_model()
        self._narrow()

    def _choose_model(self) -> None:
        """Takes what its program predicts, otherwise what was measured, otherwise what its
        job is expected to be."""
        usual = self.job.execution if isinstance(self.job, MalleableJob) else linear
        self.execution = self.predicted or self.fitted or usual
        if self.execution is not usual:
            self.reported = True

    def _narrow(self) -> None:
        if self.lender is not None:
            return  # its size does not change
        least, most = least_nodes(self.job), self.job.size
        wants = self.wants
        if wants is not None:
            least = max(least, min(wants.minimum, most))
            most = max(least, min(wants.ideal or most, most))
            if self.predicted is not None and not wants.ideal:
                most = self.predicted.fastest(least, most)
            most = max(least, min(wants.wanted or most, most))
        self.minimum, self.ideal = least, most

    @property
    def asks(self) -> bool:
        """Returns whether its program asks for more nodes."""
        return self.wants is not None and self.size < min(self.wants.wanted, self.ideal)

    def adopt(self) -> None:
        """Lets it have its nodes since its start, with sizes before that are not known: it
        may take as long as with its minimum, or with its nodes if they are fewer."""
        start_ns, least = self.start_ns, min(self.minimum, self.size)
        self.allowed_ns = self.end_with_ns(least, start_ns) - start_ns
        self.settle(start_ns)

    def order(self, now_ns: int) -> None:
        """Begins the change to the planned size. If its program has wished for another one
        often, no change begins for some time afterwards."""
        if self.wished:
            self.wished = False
            self.paced_ns = max(self.paced_ns, now_ns) + WISH_PAUSE_NS
            pause_ns = self.paced_ns - (WISHES_AT_ONCE - 1) * WISH_PAUSE_NS
            self.spared_ns = max(self.spared_ns, pause_ns)
        cost_ns = self.cost.ns(self.held, self.size)
        self.before = Before(
            now_ns, self.held, self.end_ns, self.since_ns, self.harvests, cost_ns
        )
        self.settle(now_ns)

    def settle(self, now_ns: int) -> None:
        """Carries out the planned size."""
        self.end_ns = self.end_with_ns(self.size, now_ns)
        if self.held:
            cost_ns = self.cost.ns(self.held, self.size)
            self.since_ns = max(now_ns, self.since_ns) + cost_ns
            if self.size < self.held:
                self.harvests += 1
        else:
            self.start_ns = self.since_ns = now_ns
        self.held = self.size

    def finish(self, now_ns: int, size: int, cost_ns: int) -> None:
        """Ends the change with this size. The job stood still for ``cost_ns`` until now,
        or does so from the order on if less time has passed. A cost above the time that
        has passed and the expected one is cut to them: it would put the end off."""
        before = self._before()
        most_ns = max(before.cost_ns, now_ns - before.ordered_ns)
        cost_ns = max(0, min(cost_ns, most_ns))
        self.stood_ns += cost_ns
        as_expected = size == self.held and cost_ns == before.cost_ns
        if as_expected and now_ns == before.ordered_ns:
            return
        begin_ns = max(before.ordered_ns, before.since_ns)
        self.since_ns = max(now_ns, begin_ns + cost_ns)
        held_left_ns = before.end_ns - (self.since_ns - cost_ns)
        left_ns = self._left_with_ns(size, before.held, held_left_ns)
        self.cost = self.cost.measured(before.held, size, cost_ns)
        self.held = self.size = size
        self.harvests = before.harvests + (size < before.held)
        self.end_ns = self._bounded(self.since_ns, left_ns)

    def refuse(self) -> None:
        """Ends the change: the job has what it had."""
        before = self._before()
        self.held = self.size = before.held
        self.end_ns, self.since_ns = before.end_ns, before.since_ns
        self.harvests = before.harvests

    def _before(self) -> Before:
        before, self.before = self.before, None
        assert before is not None
        return before

    def sense(self, size: int, iterations: int, exec_ns: int) -> None:
        """Adds measured iterations with a size to the fit. The job's own model holds until
        two sizes are measured, and that of its program always. A size that the job cannot
        have is ignored."""
        if iterations < 1 or exec_ns < 1 or not self.minimum <= size <= self.ideal:
            return
        if self._sensed is None:
            self._sensed = {}
        known, known_ns = self._sensed.get(size, (0, 0))
        self._sensed[size] = known + iterations, known_ns + exec_ns
        times_ns = {each: ns / count for each, (count, ns) in self._sensed.items()}
        self.fitted = fit(times_ns) or self.fitted
        self._choose_model()
