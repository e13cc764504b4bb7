"""Calculates how jobs would fare under an ideal schedule of one machine. Pure.

A calculated arm needs the runs of the arm batch: a job's length is its time alone there.
The jobs arrive as in that run, and switches cost nothing. Two schedules:

    srpt    shortest remaining processing time: the job with the least rest runs. No
            schedule of one machine has a lower mean response. It needs exact lengths,
            which no real scheduler has
    las     least attained service: the job that has run least runs. Jobs that have run
            equally long share the machine equally. It needs no lengths

One assumption: each job needs the whole machine. It holds where each node has one CPU,
because a bench places every job from the first node on. If some jobs fit side by side, a
real schedule can be better than a calculated one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cosched.bench.results.results import Run
from cosched.bench.run.arms import Arm


@dataclass(frozen=True, slots=True)
class Work:
    """A job of an ideal machine."""

    arrives_s: float  #: from the begin of the run
    length_s: float  #: its time alone on the machine


@dataclass(frozen=True, slots=True)
class Served:
    """The times of a job on an ideal machine, from the begin of the run."""

    started_s: float  #: when the job was first served
    ended_s: float  #: when the job ended


#: Returns the times of the jobs, in the order of the jobs.
Schedule = Callable[[Sequence[Work]], list[Served]]


def srpt(jobs: Sequence[Work]) -> list[Served]:
    """Runs the job with the least rest; of equal ones the first in ``jobs``."""
    rests_s = [job.length_s for job in jobs]
    started_s: dict[int, float] = {}
    ended_s: dict[int, float] = {}
    now_s = 0.0
    while len(ended_s) < len(jobs):
        waiting = _arrived(jobs, ended_s, now_s)
        next_s = _next_arrival_s(jobs, now_s)
        if not waiting:
            now_s = next_s
            continue
        first = min(waiting, key=lambda number: rests_s[number])
        started_s.setdefault(first, now_s)
        if now_s + rests_s[first] <= next_s:
            now_s += rests_s[first]
            ended_s[first] = now_s
        else:
            rests_s[first] = max(0.0, rests_s[first] - (next_s - now_s))
            now_s = next_s
    return [Served(started_s[number], ended_s[number]) for number in range(len(jobs))]


def las(jobs: Sequence[Work]) -> list[Served]:
    """Shares the machine equally between the jobs that have run least."""
    had_s = [0.0] * len(jobs)
    ended_s: dict[int, float] = {}
    now_s = 0.0
    while len(ended_s) < len(jobs):
        waiting = _arrived(jobs, ended_s, now_s)
        next_s = _next_arrival_s(jobs, now_s)
        if not waiting:
            now_s = next_s
            continue
        least_s = min(had_s[number] for number in waiting)
        served = [number for number in waiting if had_s[number] == least_s]
        # They share it until one of them ends or they have had as much as the next ones.
        levels_s = [jobs[number].length_s for number in served]
        levels_s += [had_s[number] for number in waiting if had_s[number] > least_s]
        level_s = min(levels_s)
        until_s = now_s + (level_s - least_s) * len(served)
        if until_s > next_s:
            level_s = min(level_s, least_s + (next_s - now_s) / len(served))
        now_s = min(until_s, next_s)
        for number in served:
            had_s[number] = level_s
            if level_s >= jobs[number].length_s:
                ended_s[number] = now_s
    # A job that arrives has run least, so it is served at once.
    return [Served(job.arrives_s, ended_s[number]) for number, job in enumerate(jobs)]


def _arrived(
    jobs: Sequence[Work], ended_s: dict[int, float], now_s: float
) -> Sequence[int]:
    """Returns the numbers of the jobs that have arrived and have not ended."""
    return [
        number
        for number, job in enumerate(jobs)
        if job.arrives_s <= now_s and number not in ended_s
    ]


def _next_arrival_s(jobs: Sequence[Work], now_s: float) -> float:
    later_s = (job.arrives_s for job in jobs if job.arrives_s > now_s)
    return min(later_s, default=math.inf)


SCHEDULES: Mapping[Arm, Schedule] = {Arm.SRPT: srpt, Arm.LAS: las}


def calculated_runs(arm: Arm, batch: Sequence[Run]) -> list[Run]:
    """Returns a run of a calculated arm for each run of batch that ended well."""
    return [calculated_run(arm, run) for run in batch if run.failure is None]


def calculated_run(arm: Arm, batch: Run) -> Run:
    """Returns the run that the arm would have made of the jobs of a run of batch."""
    works = [Work(job.submitted_s, job.lasted_s) for job in batch.jobs]
    jobs = tuple(
        replace(job, started_s=served.started_s, ended_s=served.ended_s)
        for job, served in zip(batch.jobs, SCHEDULES[arm](works), strict=True)
    )
    return replace(batch, arm=arm, jobs=jobs, activity=None)
