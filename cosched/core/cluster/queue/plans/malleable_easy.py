"""Plans malleable and rigid jobs together by EASY backfill.

The first job that cannot start, not even by a harvest, gets a reservation at the shadow
time (``easy``): its least nodes are expected to be free or harvestable then. A running job
counts with its minimum, because the rest can be harvested; that of a rigid job is its size.

A later job may start before, on free nodes or by a harvest. Its minimum must come from the
extra nodes if it runs beyond the shadow time. A harvest puts off the ends of its victims. A
victim that ends after the shadow time for that reason needs extra nodes, too. The remaining
free nodes go to running jobs below their ideal, whose ends come nearer.

A live change takes time, up to ``Control.change_ns``. Meanwhile no other change of that job
can begin. So what a changing job has beyond its minimum counts from the latest end of the
change on. A change that may last beyond the shadow time therefore takes extra nodes only. A
job that has refused its last change, or was late with it, counts with all its nodes until
its end, and is harvested last.

Invariants, while a job stays the first one: its reservation does not move back, and it
starts at most ``change_ns`` after it, in which a last harvest brings its nodes. They need
that jobs end when they are expected to, and that no change is refused or late.

Limits: no degree of multiprogramming and no control of harvests, since the reserved job
relies on harvests. A greater minimum of a running job holds at once for the nodes that it
has, so it can move the reservation; more nodes come only if that does not. Nodes out of
service count as free from the end of their job on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.order import Order
from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.plans.exchange import Taken
from cosched.core.cluster.queue.plans.malleable import Malleable
from cosched.core.cluster.queue.sizes.causes import Cause, Why
from cosched.core.cluster.queue.sizes.malleable_job import (
    least_nodes,
    preferred_nodes,
)
from cosched.core.cluster.queue.sizes.resizable_run import WISH_PAUSE_NS, ResizableRun
from cosched.core.cluster.queue.sizes.settings import SizePolicy
from cosched.core.errors import CoschedError


class Outlook(NamedTuple):
    """What a running job is expected to give back, and when."""

    size: int  #: its nodes
    slack: int  #: those beyond its minimum
    slack_ns: int  #: when they can be harvested, at the latest
    end_ns: int  #: when it ends, at the latest

    def by(self, at_ns: int) -> int:
        """Returns the nodes that others can have by a time."""
        if self.end_ns <= at_ns:
            return self.size
        return self.slack if self.slack_ns <= at_ns else 0

    def releases(self) -> Iterator[tuple[int, int]]:
        """Yields (time, nodes) of what it gives back, in order."""
        rest = self.size
        if self.slack_ns < self.end_ns:
            yield self.slack_ns, self.slack
            rest -= self.slack
        yield self.end_ns, rest


class MalleableEasy(Malleable):
    """EASY backfill with sizes that change. reservation: the first job that could not
    start in the last pass, and its shadow time; None if there was none."""

    def __init__(self, place: Place, order: Order, sizes: SizePolicy) -> None:
        super().__init__(place, order, sizes)
        problem = sizes.problem_with_easy
        if problem is not None:
            raise CoschedError(": ".join(problem))
        self.reservation: tuple[Job, int] | None = None
        self._extra = 0  # nodes that the reserved job will not need
        self._change_ns = sizes.control.change_ns or 0

    def submit(self, job: Job) -> None:
        super().submit(job)
        self._arrived = True  # it may start before others

    def _reach_minima(self, jobs: Sequence[ResizableRun], now_ns: int) -> None:
        """Does nothing: jobs below their minimum come after the reserved one."""

    def _admit(self, now_ns: int) -> None:
        self.reservation = None
        self._reach_degree(now_ns)
        head = self._first()
        if head is None:
            super()._reach_minima(self.exchange.steady(self._lacking(), now_ns), now_ns)
            return
        shadow_ns = self._reserve(head, now_ns)
        for run in self.exchange.steady(self._lacking(), now_ns):
            self._try_change(run, Why.MINIMUM, run.minimum, shadow_ns, now_ns)
        self._backfill(head, shadow_ns, now_ns)

    def _share_out(self, now_ns: int) -> None:
        self._admit(now_ns)
        self._give_rest(now_ns)

    def _lacking(self) -> list[ResizableRun]:
        """Returns the running jobs that have less than their minimum."""
        return [
            run
            for number, run in self.running.items()
            if number in self.exchange.outside and run.size < run.minimum
        ]

    # --- what is expected -----------------------------------------------------------------

    def _outlook(self, run: ResizableRun, now_ns: int, by: int = 0) -> Outlook:
        """Returns what a job gives back if its planned size changes by ``by`` nodes."""
        if run.lender is not None:  # its nodes return to the job that has lent them
            return Outlook(0, 0, run.end_ns, run.end_ns)
        size = run.size + by
        slack = max(0, size - run.minimum)
        changes = run.held > 0 and size != run.held
        begin_ns = now_ns  # of a planned start or change
        if size > run.held:
            begin_ns = self._begin_ns(max(0, by), now_ns)
        end_ns = run.end_with_ns(size, begin_ns)
        slack_ns = max(run.spared_ns, now_ns)
        if changes:
            slack_ns = begin_ns + self._change_ns + (WISH_PAUSE_NS if run.wished else 0)
        elif run.before is not None:
            change = self.elastic.changes.of(run.job.number)
            slack_ns = max(change.by_ns or now_ns, now_ns)
        if changes or run.before is not None:
            end_ns += self._change_ns
        end_ns = max(end_ns, now_ns)
        if run.ending or run.refuses or run.is_in_loan:
            slack_ns = end_ns
        return Outlook(size, slack, slack_ns, end_ns)

    def _begin_ns(self, more: int, now_ns: int) -> int:
        """Returns when a start or growth that needs ``more`` free nodes begins, at the
        latest: it may wait for the end of the changes that are open or planned."""
        if more <= self._present():
            return now_ns
        times = [change.by_ns or now_ns for change in self.elastic.changes.values()]
        if any(run.size < run.held for run in self._planned.runs.values()):
            times.append(now_ns + self._change_ns)
        return max([now_ns, *times])

    def _present(self) -> int:
        """Returns the free nodes that no planned start or growth needs; below 0: these need
        nodes that have not come."""
        needs = (run.size - run.held for run in self._planned.runs.values())
        return self.elastic.free - sum(need for need in needs if need > 0)

    def _reserve(self, head: Job, now_ns: int) -> int:
        """Keeps the least nodes of a job for it; returns its shadow time."""
        self._extra = self._planned.free - least_nodes(head)
        outlooks = [self._outlook(run, now_ns) for run in self.running.values()]
        shadow_ns = now_ns
        for at_ns, nodes in sorted(pair for each in outlooks for pair in each.releases()):
            if self._extra >= 0 and at_ns > shadow_ns:
                break
            self._extra += nodes
            shadow_ns = at_ns
        self.reservation = head, shadow_ns
        return shadow_ns

    # --- what does not delay the reserved job ---------------------------------------------

    def _backfill(self, head: Job, shadow_ns: int, now_ns: int) -> None:
        """Starts jobs behind the reserved one that do not delay it."""
        most = self._planned.free + self.exchange.slack()
        for job in list(self.waiting.jobs):
            least = least_nodes(job)
            if job is head or least > most:
                continue
            size = max(least, min(preferred_nodes(job), self._planned.free))
            late = self._end_of_start(job, size, now_ns) > shadow_ns
            if late and not self.sizes.changes:  # it keeps the nodes with which it starts
                size = least = max(least, min(size, self._extra))
            needed = least if late else 0
            taken: Taken | None = []
            if needed <= self._extra and least > self._planned.free:
                taken = self.exchange.find(least - self._planned.free, now_ns)
            if taken is None:
                continue
            needed += sum(
                self._needs(victim, -amount, shadow_ns, now_ns) for victim, amount in taken
            )
            if needed > self._extra:
                self.counts.would_delay += 1
                continue
            self._extra -= needed
            if taken:
                self.exchange.take(taken, job.number, least)
            self._start(job, size, now_ns)
            self.counts.backfilled += 1
            most = self._planned.free + self.exchange.slack()
            if not most:
                break

    def _end_of_start(self, job: Job, size: int, now_ns: int) -> int:
        """Returns when a waiting job ends at the latest if it starts with a size."""
        begin_ns = self._begin_ns(size, now_ns)
        if size > self._planned.free:  # by a harvest
            begin_ns = max(begin_ns, now_ns + self._change_ns)
        return ResizableRun(job, size, begin_ns).end_with_ns(size, begin_ns)

    def _needs(self, run: ResizableRun, by: int, shadow_ns: int, now_ns: int) -> int:
        """Returns the extra nodes that a change of a job needs: those that it would have
        given back by the shadow time, and does not because of the change."""
        before, after = self._outlook(run, now_ns), self._outlook(run, now_ns, by)
        return by + before.by(shadow_ns) - after.by(shadow_ns)

    def _try_change(
        self, run: ResizableRun, why: Why, size: int, shadow_ns: int, now_ns: int
    ) -> None:
        """Gives a job free nodes up to a size, unless that would delay the reserved job."""
        more = min(size - run.size, self._planned.free)
        if more > 0 and self._needs(run, more, shadow_ns, now_ns) <= self._extra:
            self._extra -= self._needs(run, more, shadow_ns, now_ns)
            self._planned.change(run, Cause(more, why, size))

    def _give(self, jobs: Sequence[ResizableRun], now_ns: int) -> None:
        if self.reservation is None:
            super()._give(jobs, now_ns)
            return
        shadow_ns = self.reservation[1]
        kept = 0  # for the reserved job: it could not have them back in time
        if now_ns + self._change_ns > shadow_ns:
            kept = self._planned.free - max(0, min(self._planned.free, self._extra))
        before = [(run, run.size, self._outlook(run, now_ns)) for run in jobs]
        self._planned.free -= kept
        super()._give(jobs, now_ns)
        self._planned.free += kept
        for run, size, outlook in before:
            by = run.size - size
            if not by:
                continue
            # A change may cost more than it saves.
            needed = by + outlook.by(shadow_ns) - self._outlook(run, now_ns).by(shadow_ns)
            if needed > self._extra:
                self._planned.undo(run)
            else:
                self._extra -= needed
