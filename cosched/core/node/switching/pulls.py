"""Decides whether a trapped message may pull a switch, and when to ask again after GMET.

Yoo and Jette, section 2.2.3, CMDSCH: the asking job is scheduled if the scheduled job has
had its guaranteed minimum execution time (GMET).
"""

from __future__ import annotations

from msgspec import Struct

from cosched.core.node.groups import Group
from cosched.core.node.job import JobState
from cosched.core.node.messages import (
    Cause,
    Command,
    Mode,
    PublishStatus,
    Refusal,
    SetAlarm,
)
from cosched.core.node.process_table import ProcessTable


class Objection(Struct, frozen=True):
    """Why a switch is refused."""

    reason: Refusal  #: the kind of the reason
    by_ns: int = 0  #: the time that is left, or the job's lead; 0: neither
    #: The job for whose sake it is refused; None: there is none.
    other: JobState | None = None

    @property
    def ends_with_gmet(self) -> bool:
        """Whether only time has to pass."""
        return self.reason in (Refusal.GMET, Refusal.PRECEDED)

    @property
    def may_end_with_a_switch(self) -> bool:
        """Whether the reason may be gone when other jobs are scheduled, or have left."""
        return self.reason in (Refusal.AHEAD, Refusal.BARRED)

    @property
    def is_temporary(self) -> bool:
        """Whether the job may be scheduled by a later message in the same status."""
        return self.ends_with_gmet or self.may_end_with_a_switch


def objection(
    job: JobState, epoch: int, table: ProcessTable, now_ns: int
) -> Objection | None:
    """Returns why a message may not schedule ``job``; None if it may.

    ``epoch`` is that of the request; only its low 32 bits count.
    """
    if job.mode is Mode.SUSPENDED:
        return Objection(Refusal.SUSPENDED)
    if job.mode is Mode.RESTING:
        return Objection(Refusal.STALE)  # it was sent before the rest
    if job.scheduled or job.mode is Mode.RELEASED:
        return Objection(Refusal.SCHEDULED)
    if (job.epoch ^ epoch) & 0xFFFFFFFF:
        return Objection(Refusal.STALE)
    if table.is_barred(job):
        return Objection(Refusal.BARRED)
    return _too_soon(job, table, now_ns) or _too_far_ahead(job, table, now_ns)


def protected_until_ns(
    job: JobState, table: ProcessTable, now_ns: int
) -> tuple[int, JobState | None]:
    """Returns until when scheduled jobs keep their CPUs from ``job``, and which job keeps
    them longest; 0 if none is scheduled."""
    group = table.group_of(job)
    ends = [
        (table.policy.protected_until_ns(other, [job], group, now_ns)[0], other.key, other)
        for other in group.scheduled
    ]
    until_ns, _, last = max(ends, default=(0, "", None))
    return until_ns, last


def _ends_ns(group: Group, table: ProcessTable, now_ns: int) -> list[int]:
    """Returns until when scheduled jobs keep their CPUs from each job of the group that was
    refused because of that."""
    refused = [job for job in group.jobs if job.awaits_gmet]
    if not refused:
        return []
    by_job = [
        table.policy.protected_until_ns(other, refused, group, now_ns)
        for other in group.scheduled
    ]
    return [max(ends) for ends in zip(*by_job, strict=True)] or [0]


def _too_soon(job: JobState, table: ProcessTable, now_ns: int) -> Objection | None:
    until_ns, last = protected_until_ns(job, table, now_ns)
    if last is None or until_ns <= now_ns:
        return None
    gmet_ns = table.policy.gmet_ns(table.group_of(job))
    longer = until_ns > last.since_ns + gmet_ns
    return Objection(Refusal.PRECEDED if longer else Refusal.GMET, until_ns - now_ns, last)


def _too_far_ahead(job: JobState, table: ProcessTable, now_ns: int) -> Objection | None:
    group = table.group_of(job)
    neediest = min(
        (other for other in group.waiting if not table.is_barred(other)),
        key=lambda other: (other.used_ns(now_ns), other.precedence),
    )
    ahead_ns = job.used_ns(now_ns) - neediest.used_ns(now_ns)
    if ahead_ns > table.policy.lead_ns(group):
        return Objection(Refusal.AHEAD, ahead_ns, neediest)
    return None


class GmetAlarm:
    """The alarm at the end of GMET, for jobs that were refused because of it.

    ``ends_ns``: the time of the next alarm; None if no job waits for one.
    """

    def __init__(self, ends_ns: int | None = None) -> None:
        self.ends_ns = ends_ns

    def ring(self, table: ProcessTable, now_ns: int) -> list[Command]:
        """Lets the jobs ask again whose refusal ended with GMET."""
        self.ends_ns = None
        commands: list[Command] = []
        for job in table.by_key():
            if job.awaits_gmet and now_ns >= protected_until_ns(job, table, now_ns)[0]:
                job.awaits_gmet = False
                commands.append(
                    PublishStatus(job.key, job.next_epoch(), False, Cause.REARMED)
                )
        return commands

    def set(self, table: ProcessTable, now_ns: int) -> list[Command]:
        """Sets the alarm to the first end of GMET that a job waits for, if it changed."""
        ends = [end for group in table.groups for end in _ends_ns(group, table, now_ns)]
        next_ns = min(ends, default=None)
        if next_ns is None or next_ns == self.ends_ns:
            return []
        self.ends_ns = next_ns
        return [SetAlarm(next_ns)]
