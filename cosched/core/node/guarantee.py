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
    first, needed_ns = None, settings.slice_ns
    for job in sorted(group.jobs, key=lambda job: (job.period_ns, job.precedence)):
        owed_ns = _owed_ns(job, group, settings, now_ns)
        if owed_ns > 0:
            first = first or job
            needed_ns += owed_ns
            if now_ns + needed_ns > job.period_ns + period_ns:
                return first
    return None


def _owed_ns(job: JobState, group: Group, settings: Settings, now_ns: int) -> int:
    """Returns how much time the job must still get in its period; at most 0 if none."""
    shares = len(group.jobs)
    if settings.fairness is Fairness.USERS:
        users = {other.user for other in group.jobs}
        own = sum(other.user == job.user for other in group.jobs)
        shares = len(users) * own
    had_ns = job.age_ns(now_ns) - job.period_age_ns
    return settings.least_share.reserved_ns // shares - had_ns
