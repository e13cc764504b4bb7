"""Records the jobs that have nodes of a domain, one job a node, and their expected ends.

A running job is expected to end when its walltime is over. Many jobs in logs exceed it.
Such a job is expected to take ``overrun_ns`` more, repeatedly.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import TypeAlias

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import (
    FreeNodes,
    Intervals,
    Pool,
    common,
    count,
    union,
    without,
)
from cosched.core.cluster.queue.places.place import OVERRUN_NS, Freed, Place, Row, Spot
from cosched.core.errors import CoschedError

_NO_JOB = -1
#: Makes the pool of a domain's free nodes.
Allocation: TypeAlias = "Callable[[Intervals], Pool]"


class Ledger(Place):
    """The nodes of one domain, or of one of its rows. index: the number of the row.

    A spot is the ledger itself: its pool chooses the nodes when a job starts.
    """

    def __init__(
        self,
        nodes: Intervals,
        overrun_ns: int = OVERRUN_NS,
        allocation: Allocation = FreeNodes,
        index: int = 0,
    ) -> None:
        self._pool = allocation(nodes)
        self._blocks = allocation is not FreeNodes
        self.total = self.capacity = self.free = self._pool.total
        self._known = self._service = nodes
        self._most = 0  # nodes that the domain may get
        self.overrun_ns = overrun_ns
        self.index = index
        self.moved = 0
        self._ends: list[tuple[int, JobId, int]] = []
        self._held: dict[JobId, tuple[int, int, Intervals]] = {}
        self._back: tuple[int, JobId, int] | None = None  # as an end
        # The first waiting job starts then at the latest, and does not need these nodes.
        self._shadow_ns = 0
        self._extra = 0
        # By the nodes of a block: when one is expected, and the free nodes then, with it
        # and in number. They stay true until a job or a node comes or goes.
        self._blocks_later: dict[int, tuple[int, Pool, int]] = {}

    @property
    def rows(self) -> Sequence[Row] | None:
        return None if self._blocks else (self,)

    @property
    def ends(self) -> Sequence[tuple[int, JobId, int]]:
        return self._ends

    @property
    def expected(self) -> Sequence[tuple[int, JobId, int]]:
        """Returns ``ends``, and when withheld nodes come back, with a number of no job."""
        return self._ends if self._back is None else sorted((*self._ends, self._back))

    @property
    def free_nodes(self) -> Intervals:
        """Returns the nodes in service without a job."""
        return self._pool.intervals

    def check(self, job: Job) -> None:
        if not 1 <= job.size <= self.total:
            raise CoschedError(
                f"job {job.number} wants {job.size} nodes; the machine has {self.total}"
            )

    def taken_by(self, size: int) -> int:
        return self._pool.width(size)

    # --- spots ----------------------------------------------------------------------------

    def find(self, job: Job) -> Spot | None:
        return self if self._pool.fits(job.size) else None

    def beside(self, job: Job, spot: Spot) -> Spot | None:
        return spot if self._pool.fits_beside(job.size, self._extra) else None

    def keep_for(self, job: Job) -> int:
        self._shadow_ns, self._extra = self._shadow(job.size)
        return self._shadow_ns

    def expected_ns(self, size: int, now_ns: int) -> int | None:
        if self._pool.fits(size):
            return now_ns
        self.extend(now_ns)
        return self._shadow(size)[0] if size <= self.capacity else None

    def _shadow(self, size: int) -> tuple[int, int]:
        """Returns when a job of this size is expected to have nodes, and the extra nodes
        then. It has none now."""
        if self._blocks:
            return self._shadow_of_block(size)
        free = self.free
        ends = iter(self.expected)
        at_ns = 0
        for end_ns, _, width in ends:
            free += width
            if free >= size:
                at_ns = end_ns
                break
        for end_ns, _, width in ends:
            if end_ns != at_ns:
                break
            free += width
        return at_ns, free - size

    def _shadow_of_block(self, size: int) -> tuple[int, int]:
        wanted = self._pool.width(size)
        if wanted not in self._blocks_later:
            self._blocks_later[wanted] = self._find_block_later(size)
        at_ns, pool, free = self._blocks_later[wanted]
        self._pool.keep_as(pool)
        return at_ns, free - wanted

    def _find_block_later(self, size: int) -> tuple[int, Pool, int]:
        pool, free, at_ns = self._pool.copy(), self.free, 0
        for end_ns, number, width in self._ends:
            pool.give(self._held[number][2])
            free += width
            at_ns = end_ns
            if pool.fits(size):
                break
        pool.keep(size)
        return at_ns, pool, free

    # --- jobs -----------------------------------------------------------------------------

    def occupy(self, job: Job, spot: Spot, now_ns: int) -> Intervals:
        size, pool = job.size, self._pool
        nodes = pool.take(size)
        self._hold(job, self.taken_by(size), nodes, now_ns)
        return nodes

    def take(self, job: Job, nodes: Intervals, now_ns: int) -> None:
        """Gives a job that may start exactly these free nodes."""
        self._pool.take_exactly(nodes)
        self._hold(job, job.size, nodes, now_ns)

    def _hold(self, job: Job, width: int, nodes: Intervals, since_ns: int) -> None:
        self.free -= width
        end_ns = since_ns + job.walltime_ns
        if end_ns > self._shadow_ns:
            self._extra -= job.size
        self._note(job.number, end_ns, width, nodes)

    def _note(self, number: JobId, end_ns: int, width: int, nodes: Intervals) -> None:
        self._held[number] = (end_ns, width, nodes)
        insort(self._ends, (end_ns, number, width))
        self._blocks_later.clear()

    def _forget(self, number: JobId) -> tuple[int, Intervals]:
        """Removes the end of a job until ``_note``; returns its width and nodes."""
        end_ns, width, nodes = self._held[number]
        del self._ends[bisect_left(self._ends, (end_ns, number))]
        self._blocks_later.clear()
        return width, nodes

    def release(self, number: JobId) -> Freed | None:
        width, nodes = self._forget(number)
        end_ns, _, _ = self._held.pop(number)
        self.free += width
        whole = self.capacity == self.total
        self._pool.give(nodes if whole else common(nodes, self._service))
        return self.index, end_ns, width

    def adopt(
        self, job: Job, nodes: Intervals, since_ns: int, halves: Intervals = ()
    ) -> None:
        self.take(job, nodes, since_ns)
        self.moved += 1

    def restart(self, number: JobId, now_ns: int, walltime_ns: int) -> None:
        width, nodes = self._forget(number)
        self._note(number, now_ns + walltime_ns, width, nodes)
        self.moved += 1

    def extend(self, now_ns: int) -> int:
        ends = self._ends
        if not ends or ends[0][0] > now_ns:
            return 0
        return len(self.prolong(now_ns))

    def prolong(self, now_ns: int) -> list[int]:
        """Puts off the expected ends of jobs that are late; returns the nodes of each."""
        ends = self._ends
        overdue = bisect_left(ends, (now_ns + 1,))
        late = ends[:overdue]
        for _, number, width in late:
            _, _, nodes = self._held[number]
            end_ns = now_ns + self.overrun_ns
            self._held[number] = (end_ns, width, nodes)
            insort(ends, (end_ns, number, width), lo=overdue)
        del ends[:overdue]
        self.moved += overdue
        self._blocks_later.clear()
        return [width for _, _, width in late]

    # --- nodes ----------------------------------------------------------------------------

    def expect(self, most: int) -> None:
        self._most = most
        self.add(())

    def add(self, nodes: Intervals) -> None:
        self._known = union(self._known, nodes)
        self.total = max(count(self._known), self._most)
        self.moved += 1

    def remove(self, nodes: Intervals) -> None:
        self.withdraw(nodes)
        for _, _, held in self._held.values():
            nodes = without(nodes, held)
        self._known = without(self._known, nodes)
        self.shrunk = True
        self.add(())

    def withdraw(self, nodes: Intervals) -> None:
        gone = common(self._service, nodes)
        self._service = without(self._service, gone)
        idle = common(self._pool.intervals, gone)
        self._pool.take_exactly(idle)
        self.free -= count(idle)
        self.capacity -= count(gone)
        self.moved += 1
        self._blocks_later.clear()
        self._resize_jobs(gone, -1)

    def admit(self, nodes: Intervals) -> None:
        new = without(nodes, self._service)
        self._service = union(self._service, new)
        self.add(new)
        self.capacity += count(new)
        self._resize_jobs(new, 1)
        for _, _, held in self._held.values():
            new = without(new, held)
        self._pool.give(new)
        self.free += count(new)
        self._blocks_later.clear()

    def expect_back(self, nodes: int, at_ns: int) -> None:
        """Expects that this number of withdrawn nodes is free from ``at_ns`` on; 0: none
        is."""
        self._back = (at_ns, _NO_JOB, nodes) if nodes else None
        self.moved += 1

    def _resize_jobs(self, nodes: Intervals, sign: int) -> None:
        """Counts nodes of running jobs in or out of service."""
        for number, (end_ns, width, held) in list(self._held.items()):
            some = count(common(held, nodes))
            if some:
                self._forget(number)
                self._note(number, end_ns, width + sign * some, held)

    def are_free(self, nodes: Intervals) -> bool:
        """Returns whether all of these nodes are in service and free."""
        return common(self._pool.intervals, nodes) == nodes
