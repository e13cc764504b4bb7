"""In which order the jobs of a queue are considered.

fcfs: first come, first served. wfp: the score of Tang et al. (Cluster 2009, used on
Intrepid), (queued / walltime)^3 x size, highest first: it favours jobs that have waited
long for what they want to run, and large ones. Equal scores go by arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cosched.core.cluster.queue.messages import Job


@dataclass(frozen=True, slots=True)
class Order:
    """rank: the queue, given by arrival, in the order in which jobs are considered.

    by_arrival: the order never changes while jobs wait, so a pass may go on where the
    last one stopped.
    """

    name: str
    rank: Callable[[Sequence[Job], int], Sequence[Job]]
    by_arrival: bool


def wfp_score(job: Job, now_ns: int) -> float:
    """The job's score at a time, in nodes."""
    return float(((now_ns - job.submit_ns) / job.walltime_ns) ** 3 * job.size)


def _as_they_came(queue: Sequence[Job], now_ns: int) -> Sequence[Job]:
    return queue


def _by_score(queue: Sequence[Job], now_ns: int) -> Sequence[Job]:
    # sorted() is stable under reverse too: equal scores keep the order of arrival.
    return sorted(queue, key=lambda job: wfp_score(job, now_ns), reverse=True)


FCFS = Order("fcfs", _as_they_came, by_arrival=True)
WFP = Order("wfp", _by_score, by_arrival=False)
