"""Harvest: from which running jobs nodes are taken, and who gets them back (section 2.2).

A policy names the victims of a harvest in order, how nodes are taken from them, and the
same for giving, which is the inverse. Jobs come in the order in which they started.

- never: takes from nobody; gives evenly;
- even: one from each in turn, whatever happened before;
- fair: the same, from jobs that were harvested no more often than the average;
- long: the same, from jobs that run no shorter than the average, longest first;
- short: the same, from jobs with no less time left than the average, most first;
- low-impact: each node from the job that keeps the greatest share of its ideal.

The paper asks for *below* and *above* the average; jobs that are at it count, too, since
otherwise jobs that are alike, and one that runs alone, could never be harvested. Giving
goes to the other half first, then to the rest: nodes do not idle beside jobs that want
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from cosched.core.cluster.malleable.dealing import (
    Amounts,
    give_evenly,
    give_most_impact,
    take_evenly,
    take_least_impact,
)
from cosched.core.cluster.malleable.running import Running

Jobs: TypeAlias = Sequence[Running]

#: Of the running jobs, at this time: those concerned, in order.
Choose: TypeAlias = Callable[[Jobs, int], Jobs]

#: What to give to, or take from, each of the jobs chosen, at most so much in all.
Deal: TypeAlias = Callable[[Jobs, int], Amounts]


@dataclass(frozen=True, slots=True)
class Harvest:
    """A harvest policy and its inverse. receivers: first choice; the rest come after."""

    name: str
    victims: Choose
    take: Deal
    receivers: Choose
    give: Deal


def _all(jobs: Jobs, now_ns: int) -> Jobs:
    return jobs


def _nobody(jobs: Jobs, now_ns: int) -> Jobs:
    return ()


# Averages are compared as sums, in whole numbers: nothing is lost to rounding.
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


def _by_time_left(jobs: Jobs, now_ns: int) -> tuple[list[tuple[int, Running]], int]:
    """Each with its time left, least first; and the sum."""
    left = [(job.left_ns(now_ns), job) for job in jobs]
    left.sort(key=lambda pair: pair[0])
    return left, sum(left_ns for left_ns, _ in left)


def _long_to_go(jobs: Jobs, now_ns: int) -> Jobs:
    left, total = _by_time_left(jobs, now_ns)
    return [job for left_ns, job in reversed(left) if left_ns * len(jobs) >= total]


def _soon_done(jobs: Jobs, now_ns: int) -> Jobs:
    left, total = _by_time_left(jobs, now_ns)
    return [job for left_ns, job in left if left_ns * len(jobs) <= total]


NEVER = Harvest("never", _nobody, take_evenly, _all, give_evenly)
EVEN = Harvest("even", _all, take_evenly, _all, give_evenly)
FAIR = Harvest("fair", _seldom_harvested, take_evenly, _often_harvested, give_evenly)
LONG = Harvest("long", _old, take_evenly, _young, give_evenly)
SHORT = Harvest("short", _long_to_go, take_evenly, _soon_done, give_evenly)
LOW_IMPACT = Harvest("low-impact", _all, take_least_impact, _all, give_most_impact)

HARVESTS = MappingProxyType(
    {harvest.name: harvest for harvest in (NEVER, EVEN, FAIR, LONG, SHORT, LOW_IMPACT)}
)
