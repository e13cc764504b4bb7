"""Keeps jobs whose number of nodes changes while they run, one job a node.

A change of a job is ordered, and later done or refused. Until then the job has the nodes
that leave, and the nodes that arrive: no other job gets them. So a start that needs leaving
nodes waits for the end of the change.

A job keeps its first node until it ends. Any others may leave (``growths``), first those
that were withdrawn while it had them.

A suspended job keeps its nodes. Another job can borrow some of them: these then have one
job that runs and one that is stopped. If the suspended job ends first, the borrowed nodes
are the borrower's own from then on.

Limit: jobs here wait for no mates in other domains.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import (
    Intervals,
    common,
    count,
    format_nodes,
    union,
    without,
)
from cosched.core.cluster.queue.places.growths import (
    Growths,
    by_coming,
    first_node,
    last_nodes,
)
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.places.open_changes import Change, OpenChanges
from cosched.core.cluster.queue.places.place import Freed, Row, Spot
from cosched.core.cluster.queue.sizes.malleable_job import least_nodes
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun, Stop
from cosched.core.errors import CoschedError


class Elastic(Ledger):
    """The nodes of a domain with malleable jobs. A spot is a run with its planned size,
    the time by which its change must be done, and why it was planned. A job that has nodes
    is resized.

    For reading: running, the jobs that have nodes or that a plan promised some; changes,
    the open ones; loans, the nodes of each job that has borrowed them. All are in the order
    of their begin.
    """

    def __init__(self, nodes: Intervals) -> None:
        super().__init__(nodes)
        self.running: dict[JobId, ResizableRun] = {}
        self.changes = OpenChanges(self.running)
        self.loans: dict[JobId, Intervals] = {}
        self._growths = Growths()
        self._unwanted: Intervals = ()  # withdrawn from a job that had them

    @property
    def rows(self) -> Sequence[Row] | None:
        return None

    @property
    def coming(self) -> int:
        """Returns the number of nodes that open changes will free."""
        return self.changes.coming(self._service)

    def check(self, job: Job) -> None:
        if job.waits_for_mates:
            raise CoschedError(
                f"job {job.number}: nodes for malleable jobs take no jobs with mates"
            )
        least = least_nodes(job)
        if not 1 <= least <= job.size <= self.total:
            raise CoschedError(
                f"job {job.number} wants {least} to {job.size} nodes; want at least "
                f"1, the minimum first, and at most the machine's {self.total}"
            )

    def fits_alone(self, job: Job) -> bool:
        return least_nodes(job) <= self.capacity

    def walltime_ns(self, job: Job) -> int:
        run = self.running[job.number]
        return max(run.allowed_ns, min(run.end_ns - run.start_ns, run.longest_ns))

    # --- starts and changes ---------------------------------------------------------------

    def occupy(self, job: Job, spot: Spot, now_ns: int) -> Intervals:
        run, by_ns, causes = spot
        number = job.number
        if run.lender is not None:
            lent = self.lendable(run.lender)
            nodes = without(lent, last_nodes(lent, count(lent) - run.size))
            run.settle(now_ns)
            self._borrow(number, nodes)
            return nodes
        if not run.held:
            nodes = self._take(run.size)
            run.settle(now_ns)
            self._growths.begin(number, nodes)
            self._note(number, run.end_ns, run.size, nodes)
            return nodes
        width, before = self._forget(number)
        more = run.size - run.held
        leaving: Intervals = ()
        arriving: Intervals = ()
        if more > 0:
            arriving = self._take(more)
            after = owned = union(before, arriving)
            width += more
        else:
            leaving = self._growths.leaving(number, -more, self.unwanted(number))
            after, owned = without(before, leaving), before
        self.changes[number] = Change(
            before, after, leaving, arriving, by_ns, causes=causes
        )
        run.order(now_ns)
        self._note(number, run.end_ns, width, owned)
        return after

    def nodes_of(self, number: JobId) -> Intervals:
        """Returns all nodes that a job has, or that leave it or arrive."""
        borrowed = self.loans.get(number)
        return self._held[number][2] if borrowed is None else borrowed

    def check_done(self, number: JobId, nodes: Intervals) -> Change:
        """Returns the open change of a job. Raises CoschedError if none can have led to
        these nodes."""
        change = self.changes.of(number)
        if nodes == change.after:
            return change
        run, size = self.running[number], count(nodes)
        # Its bounds may have changed since the order.
        sizes = (count(change.before), count(change.after))
        least, most = min(least_nodes(run.job), *sizes), max(run.job.size, *sizes)
        if without(nodes, self.nodes_of(number)):
            raise CoschedError(
                f"job {number}: resized to nodes {format_nodes(nodes)}; it was ordered to "
                f"have {format_nodes(change.after)}"
            )
        if not least <= size <= most or not common(nodes, self._growths.first(number)):
            raise CoschedError(
                f"job {number}: resized to nodes {format_nodes(nodes)}; want its first "
                f"node, and {least} to {most} nodes"
            )
        return change

    def finish(self, number: JobId, nodes: Intervals, cost_ns: int, now_ns: int) -> bool:
        """Lets a job have these nodes from its change on, and frees its others. Returns
        whether the change freed what the plan has counted on."""
        change = self.changes.pop(number)
        run = self.running[number]
        expected_ns = run.end_ns
        run.finish(now_ns, count(nodes), cost_ns)
        if nodes == change.after:
            freed, arrived = change.leaving, change.arriving
        else:
            freed = without(union(change.before, change.arriving), nodes)
            arrived = common(change.arriving, nodes)
        self._growths.change(number, freed, arrived)
        gone = 0
        if freed or run.end_ns != expected_ns:
            gone = self._keep(number, nodes, freed)
        return not change.given_up and gone == count(change.leaving)

    def refuse(self, number: JobId) -> None:
        """Lets a job keep what it had before its change; frees the arriving nodes."""
        change = self.changes.pop(number)
        self.running[number].refuse()
        self._keep(number, change.before, change.arriving)

    def _keep(self, number: JobId, nodes: Intervals, freed: Intervals) -> int:
        """Frees some nodes of a job, which keeps the others; returns how many jobs can
        have now."""
        width, _ = self._forget(number)
        if self.capacity != self.total:
            freed = common(freed, self._service)
        gone = count(freed)
        self._pool.give(freed)
        self.free += gone
        self._note(number, self.running[number].end_ns, width - gone, nodes)
        return gone

    def _take(self, size: int) -> Intervals:
        nodes = self._pool.take(size)
        self.free -= size
        return nodes

    # --- loans ----------------------------------------------------------------------------

    def _borrow(self, number: JobId, nodes: Intervals) -> None:
        self.loans[number] = nodes
        self._growths.begin(number, nodes)

    def lender_of(self, number: JobId) -> JobId | None:
        return self.running[number].lender

    def lendable(self, number: JobId) -> Intervals:
        """Returns the nodes in service of a job that owns its nodes."""
        return common(self._held[number][2], self._service)

    def borrower(self, lender: JobId) -> JobId | None:
        """Returns the job that has nodes of a suspended one; None if no job has."""
        for number in self.loans:
            if self.running[number].lender == lender:
                return number
        return None

    def adopt_loan(self, job: Job, nodes: Intervals, since_ns: int, lender: JobId) -> None:
        """Restores a job that has nodes of a suspended one. Raises CoschedError if they are
        not nodes of that job, or another job has borrowed them."""
        number = job.number
        other = self.borrower(lender)
        if without(nodes, self._held[lender][2]) or other is not None:
            raise CoschedError(
                f"job {number}: cannot have nodes {format_nodes(nodes)} of job {lender}"
            )
        run = self.running[number] = ResizableRun(job, count(nodes), since_ns)
        run.adopt()
        run.borrow(lender)
        self._borrow(number, nodes)

    def suspend(self, number: JobId, stop: Stop) -> None:
        """Begins a suspension of a job."""
        run = self.running[number]
        run.stop = stop
        run.suspensions += 1

    def continued(self, number: JobId, now_ns: int) -> int:
        """Ends the suspension of a job; returns how long its tasks were stopped."""
        run = self.running[number]
        stopped_ns = run.continued(now_ns)
        self._expect(run)
        return stopped_ns

    def recount(self, number: JobId, times: int, total_ns: int) -> None:
        """Notes earlier suspensions of a restored job."""
        run = self.running[number]
        run.suspensions = times
        run.lose(total_ns)
        self._expect(run)

    def _expect(self, run: ResizableRun) -> None:
        """Notes the expected end of a job, if it has nodes of its own."""
        if run.lender is not None:
            return
        width, nodes = self._forget(run.job.number)
        self._note(run.job.number, run.end_ns, width, nodes)

    def _inherit(self, number: JobId) -> None:
        """Gives a job the nodes that it has borrowed: their owner has ended."""
        nodes, run = self.loans.pop(number), self.running[number]
        here = common(nodes, self._service)
        self._pool.take_exactly(here)
        self.free -= count(here)
        run.lender = None
        self._note(number, run.end_ns, count(here), nodes)

    # --- which nodes leave ----------------------------------------------------------------

    def unwanted(self, number: JobId) -> Intervals:
        """Returns the nodes of a job that were withdrawn since it had them, and that it may
        give."""
        if not self._unwanted:
            return ()
        nodes = common(self.nodes_of(number), self._unwanted)
        return without(nodes, self._growths.first(number))

    def leaving_out(self, number: JobId, before: int) -> int:
        """Returns how many nodes out of service leave a job by a plan. before: the size
        that it had by the plan so far."""
        if self.takes_all:
            return 0
        run, unwanted = self.running[number], self.unwanted(number)
        earlier = self._growths.leaving(number, run.held - before, unwanted)
        now = self._growths.leaving(number, run.held - run.size, unwanted)
        return count(without(without(now, earlier), self._service))

    def awaits_nodes(self, number: JobId) -> bool:
        """Returns whether a job was restored on nodes that have not joined since."""
        if number not in self._held:
            return False
        out = without(self.nodes_of(number), self._service)
        return bool(without(out, self._unwanted))

    # --- jobs and nodes -------------------------------------------------------------------

    def release(self, number: JobId) -> Freed | None:
        heir = self.borrower(number)
        del self.running[number]
        self._growths.forget(number)
        if self.loans.pop(number, None) is not None:
            return None
        changed = self.changes.pop(number, None)
        freed = super().release(number)
        if heir is not None:
            self._inherit(heir)
            return None
        # Otherwise a plan has counted some of the nodes, or some are out of service.
        return freed if changed is None and self.capacity == self.total else None

    def adopt(
        self, job: Job, nodes: Intervals, since_ns: int, halves: Intervals = ()
    ) -> None:
        """Restores a job that has these nodes, in or out of service. All of them count as
        those of its start until ``restore`` is called."""
        if without(nodes, self._known):
            raise CoschedError(f"job {job.number}: has nodes that are not in this domain")
        self._check_unheld(job.number, nodes)
        here = common(nodes, self._service)
        self._pool.take_exactly(here)
        self.free -= count(here)
        run = self.running[job.number] = ResizableRun(job, count(nodes), since_ns)
        run.adopt()
        self._growths.begin(job.number, nodes)
        self._unwanted = without(self._unwanted, nodes)
        self._note(job.number, run.end_ns, count(here), nodes)
        self.moved += 1

    def _check_unheld(self, number: JobId, nodes: Intervals) -> None:
        for other, (_, _, held) in self._held.items():
            both = common(held, nodes)
            if both:
                raise CoschedError(
                    f"job {number}: cannot have nodes {format_nodes(both)}, which job "
                    f"{other} has"
                )

    def check_reopen(
        self,
        number: JobId,
        before: Intervals,
        growths: Sequence[Intervals],
        after: Intervals,
    ) -> None:
        """Checks the open change of a job before the job is restored. Raises CoschedError
        for nodes that it cannot be about.

        before: the job's nodes. growths: as in ``restore``. after: as in ``reopen``."""
        arriving = without(after, before)
        first = first_node(by_coming(growths, before))
        if without(arriving, self._known) or not common(after, first):
            raise CoschedError(
                f"job {number}: cannot change to nodes {format_nodes(after)}"
            )
        self._check_unheld(number, arriving)

    def reopen(self, number: JobId, after: Intervals, now_ns: int) -> Change:
        """Restores the open change of a restored job, after ``check_reopen``, and returns
        it."""
        before = self.nodes_of(number)
        leaving, arriving = without(before, after), without(after, before)
        here = common(arriving, self._service)
        self._pool.take_exactly(here)
        self.free -= count(here)
        self._unwanted = without(self._unwanted, arriving)
        run = self.running[number]
        run.size = count(after)
        width, _ = self._forget(number)
        run.order(now_ns)
        self._note(number, run.end_ns, width + count(here), union(before, arriving))
        change = self.changes[number] = Change(before, after, leaving, arriving)
        return change

    def restore(self, number: JobId, growths: Sequence[Intervals]) -> None:
        """Notes the nodes of a restored job by their coming; ignores nodes that it does
        not have."""
        self._growths.restore(number, growths, self.nodes_of(number))

    def has(self, number: JobId, nodes: Intervals) -> bool:
        change = self.changes.get(number)
        return change is None or bool(common(change.before, nodes))

    def remove(self, nodes: Intervals) -> None:
        super().remove(nodes)
        self._unwanted = common(self._unwanted, self._known)

    def withdraw(self, nodes: Intervals) -> None:
        super().withdraw(nodes)
        for _, _, held in self._held.values():
            self._unwanted = union(self._unwanted, common(held, nodes))

    def admit(self, nodes: Intervals) -> None:
        super().admit(nodes)
        self._unwanted = without(self._unwanted, nodes)
