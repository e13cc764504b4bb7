"""What a switch changes on a node, and the commands that say so, in order."""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.node.groups import shares
from cosched.core.node.messages import (
    Cause,
    Command,
    PublishContention,
    PublishStatus,
    SetShares,
)
from cosched.core.node.table import JobState, ProcessTable


def switch(
    table: ProcessTable, chosen: Sequence[JobState], now_ns: int, cause: Cause
) -> list[Command]:
    """Schedules exactly the chosen jobs: who leaves hears of it first, then the shares
    move, then who comes is woken."""
    leaving = [job for job in table.scheduled() if job not in chosen]
    coming = [job for job in chosen if not job.scheduled]
    commands: list[Command] = []
    for job in sorted(leaving, key=lambda j: j.key):
        job.account(now_ns)
        job.scheduled = False
        job.epoch += 1
        commands.append(PublishStatus(job.key, job.epoch, False, _cause_of_leaving(cause)))
    for job in coming:
        job.scheduled = True
        job.awaits_gmet = job.awaits_switch = False
        job.came_by = cause
        job.since_ns = now_ns
        job.epoch += 1
        job.switches += 1
    percents = shares(table.groups, frozenset(job.key for job in table.scheduled()))
    if percents != table.shares:
        table.shares = percents
        if percents:
            commands.append(SetShares(percents))
    commands.extend(
        PublishStatus(job.key, job.epoch, True, cause)
        for job in sorted(coming, key=lambda j: j.key)
    )
    return commands + _rearm(table)


def _rearm(table: ProcessTable) -> list[Command]:
    """Who was refused for the sake of another job may ask again: it may be that one's turn
    now, or it may have left."""
    commands: list[Command] = []
    for job in table.by_key():
        if job.awaits_switch:
            job.awaits_switch = False
            job.epoch += 1
            commands.append(PublishStatus(job.key, job.epoch, False, Cause.REARMED))
    return commands


def _cause_of_leaving(cause: Cause) -> Cause:
    if cause is Cause.SLICE:
        return Cause.SLICE
    return Cause.CROWDED if cause in (Cause.FIRST, Cause.FREED) else Cause.DISPLACED


def tell_contention(table: ProcessTable) -> list[Command]:
    """Tells the jobs of each group, where it changed, whether somebody waits."""
    commands: list[Command] = []
    for group in table.groups:
        contended = not all(job.scheduled for job in group)
        for job in group:
            if job.contended != contended:
                job.contended = contended
                commands.append(PublishContention(job.key, contended))
    return commands
