"""Gives a job the CPUs now, because a driver of several nodes orders it (the gang arm).

The paper has no such orders.
"""

from __future__ import annotations

from cosched.core.node.messages import Branch, Cause, Command, TurnGiven
from cosched.core.node.process_table import ProcessTable
from cosched.core.node.switching.decisions import bring_in


def give_turn(table: ProcessTable, event: TurnGiven) -> tuple[Branch, list[Command]]:
    """Schedules a job because a driver of several nodes wants it to run now. Returns the
    branch that was taken, for the counters of the machine, and the commands."""
    job = table.jobs.get(event.job)
    if job is None:
        return Branch.TURN_UNKNOWN, []
    if job.scheduled:
        job.account(event.now_ns)  # its slice begins again
        job.came_by = Cause.GIVEN
        return Branch.TURN_HELD, []
    if not job.mode.takes_part or table.is_barred(job):
        return Branch.TURN_BARRED, []
    return Branch.TURN_GIVEN, bring_in(table, job, event, Cause.GIVEN)
