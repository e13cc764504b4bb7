"""Guarantees each job a part of its fair share, whatever the order of the jobs.

Time is divided for each job into periods, the first of which begins when the job arrives.
In each period that it spends among k competing jobs, a job gets at least ``percent / k`` of
the period. So in any time of two periods it gets that much.

A job that has had less is *due* when its period would otherwise be too short for it and
for the jobs whose periods end earlier. The job whose period ends first then runs first
(earliest deadline first). The jobs of a group need ``percent`` of a period together, so all
get their time by the end. Ticks, GMET and switches delay it by a slice or two.

With ``fairness = users`` the fair share of a job is an equal part of its user's share. So
ten jobs of one user have no more than one job of another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cosched.core.node.groups import Group
from cosched.core.node.job import JobState
from cosched.core.node.settings import Fairness, Settings


def begin_period(job: JobState, now_ns: int) -> None:
    """Begins a period of the job."""
    job.period_ns = now_ns
    job.period_age_ns = job.age_ns(now_ns)


def begin_periods(jobs: Iterable[JobState], settings: Settings, now_ns: int) -> None:
    """Begins another period of each job whose period is over."""
    period_ns = settings.least_share.period_ns
    for job in jobs:
        over_ns = now_ns - job.period_ns
        if over_ns >= period_ns:
            begin_period(job, now_ns)
            job.period_ns -= over_ns % period_ns


def due_job(group: Group, settings: Settings, now_ns: int) -> JobState | None:
    """Returns the job that must run now, so that all get their part; None if none must."""
    period_ns = settings.least_share.period_ns
    shares = _shares(group, settings)
    first, needed_ns = None, settings.slice_ns
    for job in sorted(group.jobs, key=lambda job: (job.period_ns, job.precedence)):
        had_ns = job.age_ns(now_ns) - job.period_age_ns
        owed_ns = settings.least_share.reserved_ns // shares[job.user] - had_ns
        if owed_ns > 0:
            first = first or job
            needed_ns += owed_ns
            if now_ns + needed_ns > job.period_ns + period_ns:
                return first
    return None


def _shares(group: Group, settings: Settings) -> dict[int, int]:
    """Returns into how many equal shares the time is divided of which a job of each user
    gets one."""
    own = Counter(job.user for job in group.jobs)
    if settings.fairness is Fairness.JOBS:
        return dict.fromkeys(own, len(group.jobs))
    return {user: len(own) * jobs for user, jobs in own.items()}
