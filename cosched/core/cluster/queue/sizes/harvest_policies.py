"""Chooses the running jobs that give nodes, and the jobs that get them (section 2.2).

A harvest policy chooses the victims in order and how nodes are taken from them. Its inverse
chooses the receivers and how nodes are given. Jobs are in the order of their starts.

- never: takes from no job; gives evenly;
- even: takes one node from each job in turn;
- fair: the same, from jobs that were harvested at most as often as the average;
- long: the same, from jobs that have run at least the average time, longest first;
- short: the same, from jobs with at least the average time left, most first;
- low-impact: takes each node from the job that keeps the greatest share of its ideal.

The paper asks for *below* and *above* the average. Here the average itself counts too.
Otherwise equal jobs, or a single job, could never be harvested. Nodes are given to the
other half of the jobs first, then to the rest, so that no node stays idle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from cosched.core.cluster.queue.sizes.dealing import (
    Amounts,
    Sized,
    give_evenly,
    give_most_impact,
    take_evenly,
    take_least_impact,
)
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun

Jobs: TypeAlias = Sequence[ResizableRun]

#: Chooses jobs from the running jobs at a time, in order.
Choose: TypeAlias = Callable[[Jobs, int], Jobs]

#: Returns the amount to give to, or take from, each chosen job; limits the sum.
Deal: TypeAlias = Callable[[Sequence[Sized], int], Amounts]


@dataclass(frozen=True, slots=True)
class Harvest:
    """A harvest policy and its inverse."""

    name: str  #: on the command line
    victims: Choose  #: the jobs that give nodes
    take: Deal  #: how many nodes each of them gives
    receivers: Choose  #: the first choice; the rest follow
    give: Deal  #: how many nodes each receiver gets


def _all(jobs: Jobs, now_ns: int) -> Jobs:
    return jobs


def _none(jobs: Jobs, now_ns: int) -> Jobs:
    return ()


# Averages are compared as sums of whole numbers, without rounding.
def _seldom_harvested(jobs: Jobs, now_ns: int) -> Jobs:
    total = sum(job.harvests for job in jobs)
    return [job for job in jobs if job.harvests * len(jobs) <= total]


def _often_harvested(jobs: Jobs, now_ns: int) -> Jobs:
    total = sum(job.harvests for job in jobs)
    return [job for job in jobs if job.harvests * len(jobs) >= total]


def _old(jobs: Jobs, now_ns: int) -> Jobs:
    total = sum(job.age_ns(now_ns) for job in jobs)
    return [job for job in jobs if job.age_ns(now_ns) * len(jobs) >= total]


def _young(jobs: Jobs, now_ns: int) -> Jobs:
    total = sum(job.age_ns(now_ns) for job in jobs)
    return [job for job in reversed(jobs) if job.age_ns(now_ns) * len(jobs) <= total]


def _by_time_left(jobs: Jobs, now_ns: int) -> tuple[list[tuple[int, ResizableRun]], int]:
    """Returns each job with its time left, least first, and the sum of these times."""
    left = [(job.left_ns(now_ns), job) for job in jobs]
    left.sort(key=lambda pair: pair[0])
    return left, sum(left_ns for left_ns, _ in left)


def _long_to_go(jobs: Jobs, now_ns: int) -> Jobs:
    left, total = _by_time_left(jobs, now_ns)
    return [job for left_ns, job in reversed(left) if left_ns * len(jobs) >= total]


def _soon_done(jobs: Jobs, now_ns: int) -> Jobs:
    left, total = _by_time_left(jobs, now_ns)
    return [job for left_ns, job in left if left_ns * len(jobs) <= total]


NEVER = Harvest("never", _none, take_evenly, _all, give_evenly)
EVEN = Harvest("even", _all, take_evenly, _all, give_evenly)
FAIR = Harvest("fair", _seldom_harvested, take_evenly, _often_harvested, give_evenly)
LONG = Harvest("long", _old, take_evenly, _young, give_evenly)
SHORT = Harvest("short", _long_to_go, take_evenly, _soon_done, give_evenly)
LOW_IMPACT = Harvest("low-impact", _all, take_least_impact, _all, give_most_impact)

HARVESTS = MappingProxyType(
    {harvest.name: harvest for harvest in (NEVER, EVEN, FAIR, LONG, SHORT, LOW_IMPACT)}
)
