"""Lets jobs rest for a moment, so that jobs on other CPUs are seen without them.

The paper has no such rest: jobs on disjoint CPU sets never compete for a CPU. But they may
compete for memory, disk or network (``core.symbiosis`` decides when a job rests, and why).
A resting job is stopped, and unscheduled to its tasks. A rest ends with the next event
after its time, whatever the driver does, so a job cannot be stopped for good.
"""

from __future__ import annotations

from cosched.core.node.job import JobState
from cosched.core.node.messages import Branch, Cause, Command, Event, Mode, RestChosen
from cosched.core.node.modes import change_mode
from cosched.core.node.process_table import ProcessTable
from cosched.core.node.switching.decisions import settle, settle_after_exit

#: The longest rest.
LONGEST_NS = 4_000_000_000


def choose_rests(table: ProcessTable, event: RestChosen) -> tuple[Branch, list[Command]]:
    """Lets exactly these jobs rest, as far as they are coscheduled and alone on their CPUs;
    all others go on."""
    commands = [
        command
        for job in _resting(table)
        if job.key not in event.jobs
        for command in _go_on(table, job, event)
    ]
    for key in event.jobs:
        job = table.jobs.get(key)
        if job is not None and _may_rest(table, job):
            commands += change_mode(job, Mode.RESTING, event.now_ns)
            table.regroup()
            commands += settle_after_exit(table, event)
    resting = _resting(table)
    until_ns = min(event.until_ns, event.now_ns + LONGEST_NS)
    table.rests_until_ns = until_ns if resting else None
    return Branch.REST_BEGAN if resting else Branch.REST_NONE, commands


def end_rests(table: ProcessTable, event: Event) -> list[Command]:
    """Lets all jobs go on if their rest is over."""
    if table.rests_until_ns is None or event.now_ns < table.rests_until_ns:
        return []
    table.rests_until_ns = None
    return [c for job in _resting(table) for c in _go_on(table, job, event)]


def _resting(table: ProcessTable) -> list[JobState]:
    return [job for job in table.by_key() if job.mode is Mode.RESTING]


def _may_rest(table: ProcessTable, job: JobState) -> bool:
    return job.mode is Mode.COSCHEDULED and len(table.group_of(job).jobs) == 1


def _go_on(table: ProcessTable, job: JobState, event: Event) -> list[Command]:
    commands = change_mode(job, Mode.COSCHEDULED, event.now_ns, Cause.RESTED)
    table.regroup()
    return commands + settle(table, event, Cause.RESTED)
