"""Who runs in a domain, on what, and until when that is expected to last.

A running job is expected to end when its walltime is over. A job that outlives it (logs
are full of them) is expected to take ``overrun_ns`` more, again and again: Qsim, the
simulator of Tang et al., says five minutes.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from cosched.core.cluster.queue.messages import Job, JobId
from cosched.core.cluster.queue.nodes import FreeNodes, Intervals
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

OVERRUN_NS = 300 * NS_PER_S


class Ledger:
    """The nodes of one domain and the running jobs that have them.

    ends: (expected end, number, size) of each running job, soonest first. moved: how often
    one of them was put off, so that who made plans with them knows.
    """

    __slots__ = ("_held", "_pool", "capacity", "ends", "free", "moved", "overrun_ns")

    def __init__(self, nodes: Intervals, overrun_ns: int = OVERRUN_NS) -> None:
        self._pool = FreeNodes(nodes)
        self.capacity = self.free = self._pool.total
        self.overrun_ns = overrun_ns
        self.moved = 0
        self.ends: list[tuple[int, JobId, int]] = []
        self._held: dict[JobId, tuple[int, int, Intervals]] = {}

    def __contains__(self, number: JobId) -> bool:
        return number in self._held

    def occupy(self, job: Job, now_ns: int) -> Intervals:
        """The job runs from now on; returns its nodes."""
        nodes = self._pool.take(job.size)
        self.free -= job.size
        end_ns = now_ns + job.walltime_ns
        self._held[job.number] = (end_ns, job.size, nodes)
        insort(self.ends, (end_ns, job.number, job.size))
        return nodes

    def release(self, number: JobId) -> tuple[int, int]:
        """The job has ended; returns when that was expected, and its size."""
        held = self._held.pop(number, None)
        if held is None:
            raise CoschedError(f"job {number} ended but was not running")
        end_ns, size, nodes = held
        del self.ends[bisect_left(self.ends, (end_ns, number))]
        self.free += size
        self._pool.give(nodes)
        return end_ns, size

    def restart(self, number: JobId, now_ns: int, walltime_ns: int) -> Intervals:
        """A job that held its nodes runs on them from now on; returns them."""
        end_ns, size, nodes = self._held[number]
        del self.ends[bisect_left(self.ends, (end_ns, number))]
        end_ns = now_ns + walltime_ns
        self._held[number] = (end_ns, size, nodes)
        insort(self.ends, (end_ns, number, size))
        self.moved += 1
        return nodes

    def extend(self, now_ns: int) -> list[int]:
        """Expects jobs that should be over to take ``overrun_ns`` more; their sizes."""
        ends = self.ends
        count = bisect_left(ends, (now_ns + 1,))
        late = ends[:count]
        for _, number, size in late:
            _, _, nodes = self._held[number]
            end_ns = now_ns + self.overrun_ns
            self._held[number] = (end_ns, size, nodes)
            insort(ends, (end_ns, number, size), lo=count)
        del ends[:count]
        self.moved += count
        return [size for _, _, size in late]

    def shadow(self, size: int) -> tuple[int, int]:
        """When ``size`` nodes are expected to be free, and how many more there are then.

        The size must exceed what is free and must not exceed the machine.
        """
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
