"""Keeps when jobs must end: their walltime and the grace are over then.

A job whose user set no limit has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.states import LIVE, UNPLACED, Entry, KnownJobs


class TimeLimits:
    """The time limits of the running jobs of a queue, one a job.

    grace_ns: how long jobs that begin from now on may run on after their walltime; None:
    for ever.
    """

    def __init__(self, jobs: KnownJobs, place: Place, grace_ns: int | None) -> None:
        self.grace_ns = grace_ns
        self._jobs = jobs
        self._place = place
        self._heap: list[tuple[int, JobId]] = []

    def begin(self, entry: Entry, since_ns: int) -> None:
        """Stores when a job began, and when it must end."""
        entry.since_ns, entry.limit_ns = since_ns, None
        if self.grace_ns is not None and entry.job.limited:
            walltime_ns = self._place.walltime_ns(entry.job)
            self._put(entry, since_ns + walltime_ns + self.grace_ns)

    def put_off(self, entry: Entry, more_ns: int) -> None:
        """Lets a job run longer, if it has a limit."""
        if entry.limit_ns is not None:
            self._put(entry, entry.limit_ns + more_ns)

    def renew(self, entry: Entry) -> None:
        """Gives a job the limit of its present walltime, if it has one that is sooner."""
        if entry.limit_ns is not None and self.grace_ns is not None:
            walltime_ns = self._place.walltime_ns(entry.job)
            limit_ns = entry.since_ns + walltime_ns + self.grace_ns
            if limit_ns > entry.limit_ns:
                self._put(entry, limit_ns)

    def give_walltimes(self, walltimes_ns: Mapping[JobId, int]) -> None:
        """Gives jobs of the queue other walltimes. A job that has nodes only gets a longer
        one, which puts off its limit."""
        for number, entry in self._jobs.items():
            before_ns = entry.job.walltime_ns
            walltime_ns = walltimes_ns.get(number, before_ns)
            if entry.state not in UNPLACED:
                walltime_ns = max(before_ns, walltime_ns)
                self.put_off(entry, walltime_ns - before_ns)
            entry.job = replace(entry.job, walltime_ns=walltime_ns)

    def _put(self, entry: Entry, limit_ns: int) -> None:
        entry.limit_ns = limit_ns
        heap = self._heap
        if len(heap) > 2 * len(self._jobs) + 16:  # most are of jobs that are gone
            heap[:] = filter(self._holds, heap)
            heapify(heap)
        heappush(heap, (limit_ns, entry.job.number))

    def _holds(self, limit: tuple[int, JobId]) -> bool:
        """Returns whether this is the limit of a job that runs. If not, the job has ended,
        must end already, is suspended, or has another limit."""
        limit_ns, number = limit
        entry = self._jobs.get(number)
        return entry is not None and entry.state in LIVE and entry.limit_ns == limit_ns

    def next_ns(self) -> int | None:
        """Returns the first limit; None if no running job has one."""
        heap = self._heap
        while heap and not self._holds(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def __bool__(self) -> bool:
        return bool(self._heap)

    def due(self, now_ns: int) -> Iterator[JobId]:
        """Yields the jobs that must end. The caller orders each to end before it takes the
        next one."""
        while (limit_ns := self.next_ns()) is not None and limit_ns <= now_ns:
            yield self._heap[0][1]
