"""Decides at each event which jobs run. Each decision is one ``reschedule``.

The jobs in ``keep`` keep or get their CPUs, and each further job that fits beside them
follows in the order.

    event                                 keep                            order
    a task came or left; a job was        ``keep_running``                during turns
      resumed or raised
    a job ended, was suspended or         ``keep_running``; if an exit    during turns
      released                              ends turns, also ``make_room``
    CMDCSW: a slice ended                 ``keep_unfinished``; if turns   at turns' ends
                                            end apart, also ``make_room``
    CMDSCH: a message pulls a job;        ``keep_others``, and that job   at turns' ends
      a turn is given to it

The slice policy has both orders: ``order_now``, and ``order`` at turns' ends.
Under a policy whose first jobs take over at all times, ``keep_guaranteed`` replaces the
first three rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.node.fairness import bound_accounts
from cosched.core.node.groups import Group
from cosched.core.node.guarantee import begin_periods
from cosched.core.node.job import JobState
from cosched.core.node.messages import Cause, Command, Event
from cosched.core.node.process_table import ProcessTable
from cosched.core.node.switching.switch import (
    keep_guaranteed,
    keep_others,
    keep_running,
    keep_unfinished,
    make_room,
    rearm,
    reschedule,
)


def settle(
    table: ProcessTable, event: Event, cause: Cause, room_in: Sequence[Group] = ()
) -> list[Command]:
    """Reschedules the node after tasks, CPU sets or modes have changed."""
    now_ns = event.now_ns
    bound_accounts(table, now_ns)
    begin_periods(table.jobs.values(), table.settings, now_ns)
    order = table.order_now(now_ns)
    if table.policy.first_takes_over:
        keep = keep_guaranteed(table, now_ns)
    else:
        keep = make_room(table, room_in, keep_running(table, now_ns), order, now_ns)
    commands = reschedule(table, keep, order, now_ns, cause)
    # Even without a switch, the job for whose sake another was refused may have left.
    return commands + rearm(table, now_ns)


def settle_after_exit(table: ProcessTable, event: Event) -> list[Command]:
    """Reschedules the node after a job has left or takes part no more."""
    room_in = table.groups if table.policy.exit_ends_turns else ()
    return settle(table, event, Cause.FREED, room_in)


def jobs_to_end(table: ProcessTable, now_ns: int) -> list[JobState]:
    """Returns the scheduled jobs whose turn is over while another job waits."""
    return [
        job
        for group in table.contended()
        for job in group.scheduled
        if table.policy.is_over(job, group, now_ns)
    ]


def end_turns(
    table: ProcessTable, ending: Sequence[JobState], event: Event
) -> list[Command]:
    """Ends the turns of these jobs. The next jobs in the order follow, or the same ones."""
    now_ns = event.now_ns
    ended = [table.group_of(job) for job in ending] if table.policy.ends_apart else []
    order = table.order(event)
    keep = make_room(table, ended, keep_unfinished(table, ending), order, now_ns)
    commands = reschedule(table, keep, order, now_ns, Cause.SLICE)
    for job in ending:
        if job.scheduled:  # it begins another slice
            job.account(now_ns)
            job.came_by = Cause.SLICE
    return commands


def bring_in(
    table: ProcessTable, job: JobState, event: Event, cause: Cause
) -> list[Command]:
    """Schedules the job in the place of its whole group."""
    keep = [*keep_others(table, job), job]
    return reschedule(table, keep, table.order(event), event.now_ns, cause)
