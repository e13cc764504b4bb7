"""Orders the jobs of a queue.

fcfs: first come, first served. wfp: the score of Tang et al. (Cluster 2009, used on
Intrepid), (queued / walltime)^3 x size, highest first. It favours large jobs, and jobs that
have waited long for their walltime. largest: large jobs first, as on DataStar. Jobs with
equal scores are ordered by arrival.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cosched.core.cluster.queue.job import Job, JobId


@dataclass(frozen=True, slots=True)
class Order:
    """A named order of a queue."""

    name: str  #: on the command line
    #: Returns the score of a job at a time, the highest first; None: in order of arrival.
    score: Callable[[Job, int], float] | None = None

    @property
    def by_arrival(self) -> bool:
        """Returns whether the order is fixed, so that a pass may continue where the last
        pass stopped."""
        return self.score is None


class Ranking:
    """Jobs by their scores at one moment, the highest first.

    Many passes of a coupled domain have the same moment, and jobs come and go between
    them. So the jobs are sorted once a moment."""

    __slots__ = ("_changes", "_jobs", "_score", "now_ns")

    def __init__(
        self, jobs: Sequence[Job], score: Callable[[Job, int], float], now_ns: int
    ) -> None:
        """jobs: by arrival."""
        self._score = score
        self.now_ns = now_ns
        # sorted() is stable under reverse too: equal scores keep the order of arrival.
        self._jobs = sorted(jobs, key=lambda job: score(job, now_ns), reverse=True)
        self._changes: list[tuple[Job, bool]] = []  # jobs that came or went since then

    def add(self, job: Job) -> None:
        """Adds a job."""
        self._changes.append((job, True))

    def remove(self, job: Job) -> None:
        """Removes a job."""
        self._changes.append((job, False))

    def jobs(self) -> Sequence[Job]:
        """Returns the jobs, for reading."""
        jobs = self._jobs
        for job, came in self._changes:
            if came:
                insort(jobs, job, key=self._place)
            else:
                del jobs[bisect_left(jobs, self._place(job), key=self._place)]
        self._changes.clear()
        return jobs

    def _place(self, job: Job) -> tuple[float, int, JobId]:
        return -self._score(job, self.now_ns), job.submit_ns, job.number


def _wfp(job: Job, now_ns: int) -> float:
    return ((now_ns - job.submit_ns) / job.walltime_ns) ** 3 * job.size


def _size(job: Job, now_ns: int) -> float:
    return job.size


FCFS = Order("fcfs")
WFP = Order("wfp", _wfp)
LARGEST = Order("largest", _size)
