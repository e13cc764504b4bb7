"""Puts a job into the mode that its owner chose (suspended, boosted), and reschedules.

The paper has no modes.
"""

from __future__ import annotations

from cosched.core.node.fairness import restart_account
from cosched.core.node.guarantee import begin_period
from cosched.core.node.messages import Branch, Command, Mode, ModeChosen
from cosched.core.node.modes import CAUSES, change_mode
from cosched.core.node.process_table import ProcessTable
from cosched.core.node.switching.decisions import settle, settle_after_exit


def choose_mode(table: ProcessTable, event: ModeChosen) -> tuple[Branch, list[Command]]:
    """Puts a job into the mode that its owner chose, and reschedules the node. Returns the
    branch that was taken, for the counters of the machine, and the commands."""
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
