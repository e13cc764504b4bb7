"""Carries out requests from outside of the node: another mode of a job, or a turn for it.

The paper has no such requests. Each function returns the branch that it took, for the
counters of the machine, and the commands.
"""

from __future__ import annotations

from cosched.core.node.fairness import restart_account
from cosched.core.node.guarantee import begin_period
from cosched.core.node.messages import Branch, Cause, Command, Mode, ModeChosen, TurnGiven
from cosched.core.node.modes import CAUSES, change_mode
from cosched.core.node.process_table import ProcessTable
from cosched.core.node.switching.decisions import bring_in, settle, settle_after_exit


def give_turn(table: ProcessTable, event: TurnGiven) -> tuple[Branch, list[Command]]:
    """Schedules a job because a driver of several nodes wants it to run now."""
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


def choose_mode(table: ProcessTable, event: ModeChosen) -> tuple[Branch, list[Command]]:
    """Puts a job into the mode that its owner chose, and reschedules the node."""
    job = table.jobs.get(event.job)
    if job is None:
        return Branch.MODE_UNKNOWN, []
    if job.mode is event.mode:
        return Branch.MODE_KEPT, []
    before = job.mode
    commands = change_mode(job, event.mode, event.now_ns)
    table.regroup()
    if event.mode is Mode.COSCHEDULED or event.mode.takes_part > before.takes_part:
        restart_account(job, before, table, event.now_ns)
        begin_period(job, event.now_ns)
    if event.mode.takes_part:
        commands += settle(table, event, CAUSES[event.mode])
    else:
        commands += settle_after_exit(table, event)
    return Branch.MODE_CHANGED, commands
