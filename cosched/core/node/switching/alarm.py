"""Wakes the node when GMET is over for a job that was refused because of it."""

from __future__ import annotations

from cosched.core.node.job import JobState
from cosched.core.node.messages import Cause, Command, PublishStatus, SetAlarm
from cosched.core.node.process_table import ProcessTable
from cosched.core.node.switching.pulls import protected_until_ns


class GmetAlarm:
    """The time of the next alarm. ends_ns: None if no job waits for one."""

    def __init__(self, ends_ns: int | None = None) -> None:
        self.ends_ns = ends_ns

    def ring(self, table: ProcessTable, now_ns: int) -> list[Command]:
        """Lets the jobs ask again whose refusal ended with GMET."""
        self.ends_ns = None
        commands: list[Command] = []
        for job in table.by_key():
            if job.awaits_gmet and now_ns >= _gmet_end_ns(job, table, now_ns):
                job.awaits_gmet = False
                commands.append(
                    PublishStatus(job.key, job.next_epoch(), False, Cause.REARMED)
                )
        return commands

    def set(self, table: ProcessTable, now_ns: int) -> list[Command]:
        """Sets the alarm to the first end of GMET that a job waits for, if it changed."""
        ends = [
            _gmet_end_ns(job, table, now_ns)
            for job in table.jobs.values()
            if job.awaits_gmet
        ]
        next_ns = min(ends, default=None)
        if next_ns is None or next_ns == self.ends_ns:
            return []
        self.ends_ns = next_ns
        return [SetAlarm(next_ns)]


def _gmet_end_ns(job: JobState, table: ProcessTable, now_ns: int) -> int:
    return protected_until_ns(job, table, now_ns)[0]
