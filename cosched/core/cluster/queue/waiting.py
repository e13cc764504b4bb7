"""Keeps waiting jobs in the order of their arrival.

The order is part of the list: ``add`` finds the place of a job by its time of submission
and its number. So a job that waits again, after a failed start or with another size, has
the place that it had before, whichever event brought it back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.order import FCFS, Order, Ranking


def arrival(job: Job) -> tuple[int, JobId]:
    """Returns the sort key of a job in a queue by arrival."""
    return job.submit_ns, job.number


class WaitingList:
    """Waiting jobs. jobs: by arrival, for reading, or for a pass that drops from it.

    order: that of ``ranked``."""

    __slots__ = ("_keys", "_order", "_ranking", "jobs")

    def __init__(self, order: Order = FCFS) -> None:
        self.jobs: list[Job] = []
        self._keys: list[tuple[int, JobId]] = []
        self._order = order
        self._ranking: Ranking | None = None  # the last one

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    def ranked(self, now_ns: int) -> Sequence[Job]:
        """Returns the jobs in their order at a time, for reading until the list changes."""
        score, ranking = self._order.score, self._ranking
        if score is None:
            return self.jobs
        if ranking is None or ranking.now_ns != now_ns:
            ranking = self._ranking = Ranking(self.jobs, score, now_ns)
        return ranking.jobs()

    def add(self, job: Job) -> bool:
        """Adds a job at its place; returns whether that is the end of the list."""
        if self._ranking is not None:
            self._ranking.add(job)
        key = (job.submit_ns, job.number)
        keys = self._keys
        if not keys or keys[-1] < key:
            keys.append(key)
            self.jobs.append(job)
            return True
        place = bisect_left(keys, key)
        keys.insert(place, key)
        self.jobs.insert(place, job)
        return False

    def place_of(self, submit_ns: int, number: JobId) -> int:
        """Returns the place of a waiting job in the list."""
        return bisect_left(self._keys, (submit_ns, number))

    def remove(self, job: Job) -> None:
        """Removes a waiting job."""
        self._remove_at(self.place_of(job.submit_ns, job.number))

    def drop(self, ranked: Sequence[Job], positions: Sequence[int]) -> None:
        """Removes the jobs at these ascending positions of ``ranked``, which has jobs of
        the list in any order."""
        if ranked is self.jobs:
            for position in reversed(positions):
                self._remove_at(position)
        else:
            for job in [ranked[position] for position in positions]:
                self.remove(job)

    def _remove_at(self, place: int) -> None:
        if self._ranking is not None:
            self._ranking.remove(self.jobs[place])
        del self._keys[place], self.jobs[place]
