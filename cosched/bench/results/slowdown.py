"""Compares the responses of jobs with their lengths: bounded slowdown. Pure.

The bounded slowdown of a job is its response divided by its length, and at least 1. A
length below the bound counts as the bound, or the shortest jobs would decide a mean. The
usual bound, 10 s, is for jobs of hours; jobs of a bench take seconds.

A job's length is its time alone: from its start to its end in the arm ``batch``, where each
job has all nodes to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median

BOUND_S = 1.0


@dataclass(frozen=True, slots=True)
class Slowdown:
    """The bounded slowdowns of the jobs of a run."""

    mean: float  #: the mean of all jobs, 1 or more
    worst: float  #: the greatest one


def bounded_slowdown(response_s: float, length_s: float) -> float:
    """Returns the bounded slowdown of one job."""
    return max(1.0, response_s / max(length_s, BOUND_S))


def slowdown_of(
    responses_s: Mapping[str, float], lengths_s: Mapping[str, float]
) -> Slowdown:
    """Returns the slowdown of a run; both tables are by the name of the job."""
    found = [
        bounded_slowdown(response_s, lengths_s[name])
        for name, response_s in responses_s.items()
    ]
    return Slowdown(fmean(found), max(found))


def medians_s(runs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns each job's median over runs that have the same jobs; none without runs."""
    tables = list(runs)
    names = tables[0] if tables else ()
    return {name: median(table[name] for table in tables) for name in names}
