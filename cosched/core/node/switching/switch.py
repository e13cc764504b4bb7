"""Switches between jobs, and decides which jobs keep their CPUs.

``decisions`` has the rule of each event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cosched.core.node.groups import Group
from cosched.core.node.job import JobState
from cosched.core.node.messages import (
    Cause,
    Command,
    Job,
    PublishContention,
    PublishStatus,
    SetShares,
)
from cosched.core.node.process_table import ProcessTable
from cosched.core.node.switching.pulls import protected_until_ns

# -- which jobs keep their CPUs -----------------------------------------------------------


def keep_running(table: ProcessTable, now_ns: int) -> list[JobState]:
    """Returns the jobs that stay or come when jobs, tasks, CPU sets or modes have changed.

    Scheduled jobs stay; the one that has run longest comes first. But jobs that start
    together reach the nodes in any order. If newcomers precede each other, then of jobs in
    their first slice the one that was submitted first stays, or replaces the others. A job
    that no longer fits beside those before it loses its CPUs.
    """
    policy = table.policy
    new = {
        job.key
        for group in table.groups
        for job in group.jobs
        if policy.newcomers_precede and _is_new(job, policy.slice_ns, now_ns)
    }
    candidates = sorted(
        (job for job in table.scheduled() if job.key not in new),
        key=lambda job: (job.since_ns, job.precedence),
    )
    for group in table.groups:
        young = [job for job in group.jobs if job.key in new]  # by precedence
        last = max((n for n, job in enumerate(young) if job.scheduled), default=-1)
        candidates += young[: last + 1]
    keep: list[JobState] = []
    for job in candidates:
        if not table.is_barred(job) and table.fits([*keep, job]):
            keep.append(job)
    return keep


def keep_guaranteed(table: ProcessTable, now_ns: int) -> list[JobState]:
    """Returns the scheduled jobs that have not had GMET, as far as they fit."""
    keep: list[JobState] = []
    for group in table.groups:
        gmet_ns = table.policy.gmet_ns(group)
        for job in group.scheduled:
            new = job.ran_ns(now_ns) < gmet_ns and not table.is_barred(job)
            if new and table.fits([*keep, job]):
                keep.append(job)
    return keep


def _is_new(job: JobState, slice_ns: int, now_ns: int) -> bool:
    """Whether the job is in its first slice, or never had one."""
    return (
        job.came_by is Cause.FIRST and job.switches <= 1 and job.age_ns(now_ns) < slice_ns
    )


def keep_unfinished(table: ProcessTable, ending: Sequence[JobState]) -> list[JobState]:
    """Returns the scheduled jobs without those whose turn is over."""
    over = {job.key for job in ending}
    return [
        job for job in table.scheduled() if job.key not in over and not table.is_barred(job)
    ]


def keep_others(table: ProcessTable, job: JobState) -> list[JobState]:
    """Returns the scheduled jobs that do not compete with this one."""
    group = table.group_of(job)
    return [other for other in table.scheduled() if other.key not in group.keys]


def make_room(
    table: ProcessTable,
    groups: Iterable[Group],
    keep: Sequence[JobState],
    order: Sequence[JobState],
    now_ns: int,
) -> list[JobState]:
    """Returns ``keep`` without the jobs that the next job of one of these groups needs the
    CPUs of.

    They give way if they have had GMET. A job that needs many CPUs would otherwise never
    find all of them free.
    """
    kept = {job.key for job in keep}
    leaving: set[Job] = set()
    for group in groups:
        first = next(job for job in order if job.key in group.keys)
        if first.key not in kept and not table.fits([*keep, first]):
            gmet_ns = table.policy.gmet_ns(group)
            leaving |= {
                job.key
                for job in group.jobs
                if job.key in kept
                and job.ran_ns(now_ns) >= gmet_ns
                and not job.cpus.isdisjoint(first.cpus)
            }
    return [job for job in keep if job.key not in leaving]


# -- the switch ---------------------------------------------------------------------------


def reschedule(
    table: ProcessTable,
    keep: Sequence[JobState],
    order: Sequence[JobState],
    now_ns: int,
    cause: Cause,
) -> list[Command]:
    """Schedules the jobs in ``keep`` and, in ``order``, all that fit beside them.

    Jobs that lose their CPUs are notified first, then the shares move, and then the jobs
    that get CPUs are notified. ``cause`` is why these jobs are scheduled.
    """
    chosen = {job.key for job in table.fill(keep, order)}
    moving = [job for job in table.by_key() if job.scheduled != (job.key in chosen)]
    leaving = [job for job in moving if job.scheduled]
    coming = [job for job in moving if not job.scheduled]
    if not leaving and not coming:
        return set_shares(table)
    prospects = table.prospects(now_ns) if cause.follows_order else {}
    commands: list[Command] = []
    for job in leaving:
        job.account(now_ns)
        job.scheduled = False
        why, prospect = _cause_of_leaving(table, cause), prospects.get(job.key)
        commands.append(PublishStatus(job.key, job.next_epoch(), False, why, prospect))
    for job in coming:
        job.scheduled = True
        job.awaits_gmet = job.awaits_switch = False
        job.came_by = cause
        job.since_ns = now_ns
        job.switches += 1
    commands += set_shares(table)
    commands += [
        PublishStatus(job.key, job.next_epoch(), True, cause, prospects.get(job.key))
        for job in coming
    ]
    return commands + rearm(table, now_ns)


def set_shares(table: ProcessTable) -> list[Command]:
    """Sets the shares if percentages or CPUs differ from those that were set last."""
    shares = table.present_shares()
    if shares == table.shares:
        return []
    table.shares = shares
    return [SetShares(tuple((s.job, s.percent) for s in shares))] if shares else []


def _cause_of_leaving(table: ProcessTable, cause: Cause) -> Cause:
    if cause is Cause.SLICE:
        return Cause.SLICE
    crowded = cause in (Cause.FIRST, Cause.FREED) and not table.policy.first_takes_over
    return Cause.CROWDED if crowded else Cause.DISPLACED


def rearm(table: ProcessTable, now_ns: int) -> list[Command]:
    """Lets jobs ask again that were refused for the sake of another job.

    Call it when other jobs are scheduled or have left: the reason may be gone. Where a job
    that was just scheduled has its GMET before it, they ask at the end of that.
    """
    commands: list[Command] = []
    for job in table.by_key():
        if not job.awaits_switch:
            continue
        job.awaits_switch = False
        if protected_until_ns(job, table, now_ns)[0] > now_ns:
            job.awaits_gmet = True
        else:
            commands.append(
                PublishStatus(job.key, job.next_epoch(), False, Cause.UNBLOCKED)
            )
    return commands


def discard(job: JobState) -> list[Command]:
    """Lets a job ask again whose request was refused and is not kept."""
    return [PublishStatus(job.key, job.next_epoch(), False, Cause.DISCARDED)]


def publish_contention(table: ProcessTable) -> list[Command]:
    """Notifies the jobs of each group, where it changed, whether a job waits."""
    commands: list[Command] = []
    for group in table.groups:
        contended = bool(group.waiting)
        for job in group.jobs:
            if job.contended != contended:
                job.contended = contended
                commands.append(PublishContention(job.key, contended))
    return commands
