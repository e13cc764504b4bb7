"""Shares each node among several jobs: rows of places (Ousterhout, 1982).

Each row is the whole domain, and a job runs within one row. So the jobs of a row never
share a node, and a node has as many places as there are rows. All rows have one queue. A
job starts in the first row that has room; its nodes there are those where it stops as few
other jobs as possible (``least_stopped``). The reservation of the first waiting job is in
the row that is free soonest, so it keeps no job from the other rows.

A job that runs alone is in all rows at once (``exclusive`` decides when). Withheld nodes
are in service, but no job starts on them. A row can be open only to jobs with a short
walltime.

The number of rows can change (``share``), and after a restart the jobs that run join the
rows again (``adopt``). Jobs that fit in no row then run on in closed rows, which take no
job. Until they end, no job starts on their nodes.

Invariants: those of ``Ledger`` in each row. A job is in one row, or runs alone and is in
all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import (
    Intervals,
    common,
    count,
    from_numbers,
    numbers,
    union,
    without,
)
from cosched.core.cluster.queue.places.least_stopped import bits, least_stopped, to_bits
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.places.place import Freed, Place, Row, Spot
from cosched.core.errors import CoschedError
from cosched.core.times import earliest


class Rows(Place):
    """The rows of a domain. A spot is one of its open rows.

    shorter_ns: the longest walltime of a job in each row after the first; by default all
    rows are open to all jobs.
    """

    def __init__(self, nodes: Intervals, rows: int, shorter_ns: Sequence[int] = ()) -> None:
        self.service = nodes
        self._nodes = nodes
        self._most = 0
        self._shorter_ns = shorter_ns
        self._make(rows)

    def _make(self, rows: int) -> None:
        """Makes empty rows with all nodes in service, none withheld."""
        self.open = [self._new_row(index) for index in range(rows)]
        self.closed: list[Ledger] = []
        self._withheld: Intervals = ()
        self._back = (0, 0)  # how many of them come back, and when
        self._in: dict[JobId, tuple[Ledger, ...]] = {}  # the rows of each job with nodes
        self._has: dict[JobId, Intervals] = {}
        self._kept: Ledger | None = None  # has the first waiting job's reservation
        self._blocked: list[Ledger] = []

    def _new_row(self, index: int) -> Ledger:
        row = Ledger(self._nodes, index=index)
        row.expect(self._most)
        return row

    # --- for plans ------------------------------------------------------------------------

    @property
    def all(self) -> list[Ledger]:
        """Returns the open rows, then the closed ones."""
        return [*self.open, *self.closed]

    @property
    def rows(self) -> Sequence[Row] | None:
        return None if self._shorter_ns else self.open

    @property
    def total(self) -> int:  # type: ignore[override]
        return self.open[0].total

    @property
    def capacity(self) -> int:  # type: ignore[override]
        return self.open[0].capacity

    @property
    def free(self) -> int:  # type: ignore[override]
        return max(row.free for row in self.open)

    @property
    def moved(self) -> int:  # type: ignore[override]
        return sum(row.moved for row in self.open)

    @property
    def ends(self) -> Sequence[tuple[int, JobId, int]]:
        ends = {number: end for row in self.all for end in row.ends for number in (end[1],)}
        return sorted(ends.values())

    @property
    def in_service(self) -> int:
        return count(self.service)

    @property
    def free_alone(self) -> int:
        if len(self.open) == 1:
            return self.free
        return count(self._without_jobs())

    def _without_jobs(self) -> Intervals:
        nodes = self.service
        for held in self._has.values():
            nodes = without(nodes, held)
        return nodes

    def check(self, job: Job) -> None:
        self.open[0].check(job)

    def runs_alone(self, job: Job) -> bool:
        return job.exclusive and len(self.open) > 1

    def fits_alone(self, job: Job) -> bool:
        return job.size <= self.capacity + self._back[0]

    # --- spots ----------------------------------------------------------------------------

    def _open_to(self, job: Job) -> list[Ledger]:
        """Returns the rows in which a job may start."""
        rows = self.open
        if self._shorter_ns:
            rows = [
                row
                for row in rows
                if not row.index or job.walltime_ns <= self._shorter_ns[row.index - 1]
            ]
        return [row for row in rows if row not in self._blocked]

    def find(self, job: Job) -> Spot | None:
        size = job.size
        return next((row for row in self._open_to(job) if size <= row.free), None)

    def beside(self, job: Job, spot: Spot) -> Spot | None:
        kept = self._kept
        if kept is None or spot is not kept:
            return spot
        others = (row for row in self._open_to(job) if row is not spot)
        other = next((row for row in others if job.size <= row.free), None)
        return other or kept.beside(job, kept)

    def keep_for(self, job: Job) -> int:
        times = [(row.keep_for(job), row.index) for row in self._open_to(job)]
        at_ns, index = min(times)
        self._kept = self.open[index]
        return at_ns

    def block(self, job: Job) -> bool:
        self._blocked += self._open_to(job)
        return len(self._blocked) == len(self.open)

    def unblock(self) -> None:
        self._blocked.clear()

    def expected_ns(self, size: int, now_ns: int) -> int | None:
        return earliest(row.expected_ns(size, now_ns) for row in self.open)

    def soonest_alone(self, size: int, now_ns: int) -> tuple[Intervals, int | None]:
        """Returns the nodes in service that become free soonest, and when all of them are
        expected to be; None: now. At least ``size`` nodes must be in service."""
        ends = {number: end_ns for end_ns, number, _ in self.ends}
        used: dict[int, int] = {}
        for number, held in self._has.items():
            end_ns = max(now_ns, ends[number])
            for node in numbers(held):
                used[node] = max(end_ns, used.get(node, 0))
        nodes = numbers(self.service)
        assert size <= len(nodes)
        nodes.sort(key=lambda node: (node in used, used.get(node, 0), node))
        chosen = nodes[:size]
        return from_numbers(chosen), used.get(chosen[-1])

    # --- jobs -----------------------------------------------------------------------------

    def occupy(self, job: Job, spot: Spot, now_ns: int) -> Intervals:
        if len(self.open) == 1 and not self.closed:
            nodes: Intervals = spot.occupy(job, spot, now_ns)
        else:
            others = [
                to_bits(self._has[number])
                for number, rows in self._in.items()
                if rows[0] is not spot
            ]
            free = to_bits(spot.free_nodes)
            nodes = from_numbers(bits(least_stopped(free, job.size, others)))
            spot.take(job, nodes, now_ns)
        self._note(job.number, nodes, spot)
        return nodes

    def occupy_alone(self, job: Job, nodes: Intervals, now_ns: int) -> None:
        """Gives a job nodes that no other job has, in all rows."""
        for row in self.all:
            row.adopt(job, nodes, now_ns)
        self._note(job.number, nodes, *self.all)

    def _note(self, number: JobId, nodes: Intervals, *rows: Ledger) -> None:
        self._in[number] = rows
        self._has[number] = nodes

    def release(self, number: JobId) -> Freed | None:
        del self._has[number]
        rows = self._in.pop(number)
        freed = [row.release(number) for row in rows]
        closed = rows[0] in self.closed
        if closed:
            used = {row for its in self._in.values() for row in its}
            self.closed = [row for row in self.closed if row in used]
        return freed[0] if len(rows) == 1 and not closed else None

    def restart(self, number: JobId, now_ns: int, walltime_ns: int) -> None:
        for row in self._in[number]:
            row.restart(number, now_ns, walltime_ns)

    def extend(self, now_ns: int) -> int:
        return sum(row.extend(now_ns) for row in self.open)

    def adopt(
        self, job: Job, nodes: Intervals, since_ns: int, halves: Intervals = ()
    ) -> None:
        """Restores a job that runs, in the first row that has its nodes free, otherwise in
        a closed one. Its nodes may be out of service. A job that runs alone shares its
        nodes if other jobs are there."""
        if common(self._nodes, nodes) != nodes:
            raise CoschedError(f"job {job.number}: has nodes that are not in this domain")
        out = without(self._nodes, self.service)
        self._withhold(())
        for row in self.all:
            row.admit(out)
        self._adopt(job, nodes, since_ns)
        for row in self.all:
            row.withdraw(out)

    def _adopt(self, job: Job, nodes: Intervals, since_ns: int) -> None:
        for number, rows in self._in.items():
            if len(rows) > 1 and common(self._has[number], nodes):
                for row in rows[1:]:
                    row.release(number)
                self._in[number] = rows[:1]
        free = [row for row in self.all if row.are_free(nodes)]
        if self.runs_alone(job) and not job.waits_for_mates and len(free) == len(self.all):
            self.occupy_alone(job, nodes, since_ns)
            return
        row = free[0] if free else self._add_closed()
        row.adopt(job, nodes, since_ns)
        self._note(job.number, nodes, row)

    def _add_closed(self) -> Ledger:
        row = self._new_row(len(self.all))
        self.closed.append(row)
        return row

    def share(self, rows: int, held: Mapping[JobId, tuple[Job, Intervals, int]]) -> None:
        self._make(rows)
        for job, nodes, since_ns in sorted(
            held.values(), key=lambda entry: not entry[0].exclusive
        ):
            self._adopt(job, nodes, since_ns)
        for row in self.all:
            row.withdraw(without(self._nodes, self.service))

    # --- nodes ----------------------------------------------------------------------------

    def expect(self, most: int) -> None:
        self._most = most
        for row in self.all:
            row.expect(most)

    def add(self, nodes: Intervals) -> None:
        self._nodes = union(self._nodes, nodes)
        for row in self.all:
            row.add(nodes)

    def remove(self, nodes: Intervals) -> None:
        self.withdraw(nodes)
        for held in self._has.values():
            nodes = without(nodes, held)
        self._nodes = without(self._nodes, nodes)
        self.shrunk = True
        for row in self.all:
            row.remove(nodes)

    def withdraw(self, nodes: Intervals) -> None:
        self._withhold(())  # the rows must see the change
        self.service = without(self.service, nodes)
        for row in self.all:
            row.withdraw(nodes)

    def admit(self, nodes: Intervals) -> None:
        self._withhold(())
        self.service = union(self.service, nodes)
        for row in self.all:
            row.admit(nodes)

    def withhold(self, nodes: Intervals, until_ns: int = 0) -> bool:
        """Keeps exactly these nodes, and those of the jobs in closed rows, from jobs that
        start; returns whether that is a change. until_ns: when these nodes are expected to
        be free for others."""
        back = count(common(nodes, self.service)), until_ns
        if self.closed:
            for number, rows in self._in.items():
                if rows[0] in self.closed:
                    nodes = union(nodes, self._has[number])
        return self._withhold(common(nodes, self.service), back)

    def _withhold(self, nodes: Intervals, back: tuple[int, int] = (0, 0)) -> bool:
        given, taken = without(self._withheld, nodes), without(nodes, self._withheld)
        is_same = not (given or taken) and back == self._back
        self._withheld, self._back = nodes, back
        if is_same:
            return False
        for row in self.all:
            if given:
                row.admit(given)
            if taken:
                row.withdraw(taken)
            row.expect_back(*back)
        return True
