"""Orders the jobs of a queue.

fcfs: first come, first served. wfp: the score of Tang et al. (Cluster 2009, used on
Intrepid), (queued / walltime)^3 x size, highest first. It favours large jobs, and jobs that
have waited long for their walltime. largest: large jobs first, as on DataStar. Jobs with
equal scores are ordered by arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cosched.core.cluster.queue.job import Job


@dataclass(frozen=True, slots=True)
class Order:
    """A named order of a queue."""

    name: str  #: on the command line
    #: Takes the queue by arrival and the time; returns it in this order.
    rank: Callable[[Sequence[Job], int], Sequence[Job]]
    #: The order is fixed, so a pass may continue where the last pass stopped.
    by_arrival: bool


def wfp_score(job: Job, now_ns: int) -> float:
    """Returns the job's score at a time, in nodes."""
    return float(((now_ns - job.submit_ns) / job.walltime_ns) ** 3 * job.size)


def _by_arrival(queue: Sequence[Job], now_ns: int) -> Sequence[Job]:
    return queue


def _by_score(queue: Sequence[Job], now_ns: int) -> Sequence[Job]:
    # sorted() is stable under reverse too: equal scores keep the order of arrival.
    return sorted(queue, key=lambda job: wfp_score(job, now_ns), reverse=True)


def _by_size(queue: Sequence[Job], now_ns: int) -> Sequence[Job]:
    return sorted(queue, key=lambda job: -job.size)


FCFS = Order("fcfs", _by_arrival, by_arrival=True)
WFP = Order("wfp", _by_score, by_arrival=False)
LARGEST = Order("largest", _by_size, by_arrival=False)
