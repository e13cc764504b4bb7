"""Records the running jobs of a domain, their nodes and their expected ends.

A running job is expected to end when its walltime is over. Many jobs in logs exceed it.
Such a job is expected to take ``overrun_ns`` more, repeatedly. Qsim, the simulator of Tang
et al., uses five minutes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import TypeAlias

from cosched.core.cluster.queue.messages import Job, JobId
from cosched.core.cluster.queue.nodes import (
    FreeNodes,
    Intervals,
    common,
    count,
    union,
    without,
)
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

OVERRUN_NS = 300 * NS_PER_S


#: Makes the pool of a domain's free nodes.
Allocation: TypeAlias = "Callable[[Intervals], FreeNodes]"


class Ledger:
    """The nodes of one domain and the jobs that run on them.

    Nodes can be out of service: a job that has some keeps them, but they are not given back
    at its end.

    capacity: the nodes in service. total: the nodes in and out of service. ends: (expected
    end, number, nodes in service) of each running job, soonest first. moved: counts the
    changes of expected ends and of nodes in service, so that planners can detect them.
    """

    __slots__ = (
        "_blocks",
        "_held",
        "_known",
        "_pool",
        "_service",
        "capacity",
        "ends",
        "free",
        "moved",
        "overrun_ns",
        "total",
    )

    def __init__(
        self,
        nodes: Intervals,
        overrun_ns: int = OVERRUN_NS,
        allocation: Allocation = FreeNodes,
    ) -> None:
        self._pool = allocation(nodes)
        self._blocks = allocation is not FreeNodes
        self.total = self.capacity = self.free = self._pool.total
        self._known = self._service = nodes
        self.overrun_ns = overrun_ns
        self.moved = 0
        self.ends: list[tuple[int, JobId, int]] = []
        self._held: dict[JobId, tuple[int, int, Intervals]] = {}

    def __contains__(self, number: JobId) -> bool:
        return number in self._held

    def occupy(self, job: Job, now_ns: int) -> Intervals:
        """Starts the job at ``now_ns``; returns its nodes."""
        nodes = self._pool.take(job.size)
        width = self._pool.width(job.size)
        self.free -= width
        end_ns = now_ns + job.walltime_ns
        self._held[job.number] = (end_ns, width, nodes)
        insort(self.ends, (end_ns, job.number, width))
        return nodes

    def release(self, number: JobId) -> tuple[int, int]:
        """Ends the job; returns its expected end and its size."""
        held = self._held.pop(number, None)
        if held is None:
            raise CoschedError(f"job {number} ended but was not running")
        end_ns, size, nodes = held
        del self.ends[bisect_left(self.ends, (end_ns, number))]
        self.free += size
        whole = self.capacity == self.total
        self._pool.give(nodes if whole else common(nodes, self._service))
        return end_ns, size

    def occupy_exactly(self, job: Job, nodes: Intervals, since_ns: int) -> None:
        """Notes a job that runs on these nodes since ``since_ns``."""
        self._pool.take_exactly(nodes)
        self.free -= job.size
        end_ns = since_ns + job.walltime_ns
        self._held[job.number] = (end_ns, job.size, nodes)
        insort(self.ends, (end_ns, job.number, job.size))

    def withdraw(self, nodes: Intervals) -> list[JobId]:
        """Takes nodes out of service; returns the running jobs that have some of them."""
        gone = common(self._service, nodes)
        self._service = without(self._service, gone)
        idle = common(self._pool.intervals, gone)
        self._pool.take_exactly(idle)
        self.free -= count(idle)
        self.capacity -= count(gone)
        self.moved += 1
        return self._resize_jobs(gone, -1)

    def has_some_of(self, number: JobId, nodes: Intervals) -> bool:
        """Returns whether a job has some of these nodes, in service or not."""
        return bool(common(self._held[number][2], nodes))

    def admit(self, nodes: Intervals) -> None:
        """Puts nodes into service: new ones, or such as were withdrawn."""
        new = without(nodes, self._service)
        self._service = union(self._service, new)
        self._known = union(self._known, new)
        self.total = count(self._known)
        self.capacity += count(new)
        self._resize_jobs(new, 1)
        for _, _, held in self._held.values():
            new = without(new, held)
        self._pool.give(new)
        self.free += count(new)
        self.moved += 1

    def _resize_jobs(self, nodes: Intervals, sign: int) -> list[JobId]:
        """Counts nodes of running jobs in or out of service; returns these jobs."""
        changed = []
        for number, (end_ns, size, held) in self._held.items():
            some = count(common(held, nodes))
            if some:
                changed.append((number, end_ns, size + sign * some, held))
        for number, end_ns, size, held in changed:
            del self.ends[bisect_left(self.ends, (end_ns, number))]
            insort(self.ends, (end_ns, number, size))
            self._held[number] = (end_ns, size, held)
        return sorted(number for number, *_ in changed)

    def restart(self, number: JobId, now_ns: int, walltime_ns: int) -> Intervals:
        """Starts a job on the nodes that it held; returns them."""
        end_ns, size, nodes = self._held[number]
        del self.ends[bisect_left(self.ends, (end_ns, number))]
        end_ns = now_ns + walltime_ns
        self._held[number] = (end_ns, size, nodes)
        insort(self.ends, (end_ns, number, size))
        self.moved += 1
        return nodes

    def extend(self, now_ns: int) -> list[int]:
        """Adds ``overrun_ns`` to each job that is overdue; returns their sizes."""
        ends = self.ends
        overdue = bisect_left(ends, (now_ns + 1,))
        late = ends[:overdue]
        for _, number, size in late:
            _, _, nodes = self._held[number]
            end_ns = now_ns + self.overrun_ns
            self._held[number] = (end_ns, size, nodes)
            insort(ends, (end_ns, number, size), lo=overdue)
        del ends[:overdue]
        self.moved += overdue
        return [size for _, _, size in late]

    def are_free(self, nodes: Intervals) -> bool:
        """Returns whether all of these nodes are in service and free."""
        return common(self._pool.intervals, nodes) == nodes

    def guess_ns(self, size: int, now_ns: int) -> int:
        """Returns about when ``size`` nodes are free; overdue jobs end now. The last
        expected end if there are too few nodes in service."""
        free, at_ns = self.free, now_ns
        for end_ns, _, width in self.ends:
            if free >= size:
                break
            free += width
            at_ns = max(now_ns, end_ns)
        return at_ns

    def fits(self, size: int) -> bool:
        """Returns whether a job of this size could have nodes now."""
        return self._pool.fits(size)

    def fits_beside(self, size: int, extra: int) -> bool:
        """Returns whether a job of this size could have nodes that the reserved job, which
        leaves ``extra`` nodes, does not need."""
        return self._pool.fits_beside(size, extra)

    def shadow(self, size: int) -> tuple[int, int]:
        """Returns when a job of this size is expected to have nodes, and the extra nodes
        then. It has none now.
        """
        if self._blocks:
            return self._shadow_of_block(size)
        free = self.free
        ends = iter(self.ends)
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
        pool, free, at_ns = self._pool.copy(), self.free, 0
        for end_ns, number, width in self.ends:
            pool.give(self._held[number][2])
            free += width
            at_ns = end_ns
            if pool.fits(size):
                break
        pool.keep(size)
        self._pool.keep_as(pool)
        return at_ns, free - self._pool.width(size)
