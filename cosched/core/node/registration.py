"""Adds and removes the tasks and launchers of jobs: the paper's CMDREG and CMDOUT.

Each public function returns what it did, for the counters of the machine, and the commands.
"""

from __future__ import annotations

from cosched.core.node.fairness import start_account
from cosched.core.node.guarantee import begin_period
from cosched.core.node.job import JobState, submission_key
from cosched.core.node.knowledge import UNKNOWN, Ended, Expectation
from cosched.core.node.messages import (
    Branch,
    Cause,
    Command,
    PublishStatus,
    Task,
    TaskExited,
    TaskRegistered,
)
from cosched.core.node.modes import (
    add_task,
    create_class,
    destroy_class,
    remove_task,
    set_class_cpus,
)
from cosched.core.node.process_table import ProcessTable
from cosched.core.node.switching.decisions import settle, settle_after_exit


def register(
    table: ProcessTable, event: TaskRegistered
) -> tuple[tuple[Branch, ...], list[Command]]:
    """Adds a task or a launcher to its job. The first one of a job makes the job and its
    class with 1%; the job is scheduled if no other one competes with it."""
    job = table.jobs.get(event.job)
    if job is None:
        first = (Branch.REG_BEFORE_TASKS,) if event.launcher else ()
        return (Branch.REG_NEW_JOB, *first), _add_job(table, event)
    if job.starting and job.expectation == UNKNOWN:
        _expect(table, job, event.expectation)
    for before in (event.task, event.replaces):
        if before in job.tasks:
            branch, commands = _register_again(table, job, before, event)
            return (branch,), commands
    if event.launcher:
        branch = Branch.REG_LAUNCHER
        job.launchers[event.task] = event.cpus
    else:
        branch = Branch.REG_NEW_TASK
        job.launchers.pop(event.task, None)  # it is the program itself
        _add_task(table, job, event)
    commands = _update_cpus(table, job) + add_task(job, event.task)
    return (branch,), commands + settle(table, event, Cause.FREED)


def leave(table: ProcessTable, event: TaskExited) -> tuple[Branch, list[Command]]:
    """Removes a task or a launcher. With the last one of a job, ends the job and destroys
    its class; the next job is scheduled."""
    job = table.jobs.get(event.job)
    if job is None or event.task not in job.members:
        return Branch.OUT_UNKNOWN, []
    if event.task in job.launchers:
        del job.launchers[event.task]
    else:
        del job.tasks[event.task]
        if not job.tasks:
            job.bare_age_ns = job.age_ns(event.now_ns)
    commands = remove_task(job, event.task)
    if job.members:
        commands += _update_cpus(table, job)
        return Branch.OUT_TASK, commands + settle(table, event, Cause.FREED)
    del table.jobs[job.key]
    _learn(table, job, event.now_ns)
    table.regroup()
    commands += destroy_class(job)
    return Branch.OUT_JOB, commands + settle_after_exit(table, event)


def _add_job(table: ProcessTable, event: TaskRegistered) -> list[Command]:
    submitted_ns = event.submitted_ns
    if not event.adopted:
        submitted_ns = submission_key(submitted_ns, event.wall_ns)
    job = JobState(
        event.job,
        submitted_ns,
        cpus=event.cpus,
        epoch=event.epoch,
        received_is_complete=not event.adopted,
        user=event.user,
    )
    _expect(table, job, event.expectation)
    if event.launcher:
        job.launchers[event.task] = event.cpus
    else:
        _add_task(table, job, event)
    table.jobs[job.key] = job
    table.regroup()
    start_account(job, table, event.now_ns)
    begin_period(job, event.now_ns)
    commands = create_class(job) + add_task(job, event.task)
    # Its tasks read a status from the first moment on.
    commands.append(PublishStatus(job.key, job.epoch, False, Cause.FIRST))
    return commands + settle(table, event, Cause.FIRST)


def _register_again(
    table: ProcessTable, job: JobState, before: Task, event: TaskRegistered
) -> tuple[Branch, list[Command]]:
    """A task that was launched comes to MPI, perhaps in another process or on other CPUs.
    For the job it is the same task."""
    moved = job.tasks.pop(before) != event.cpus
    job.tasks[event.task] = event.cpus
    commands = _update_cpus(table, job)
    # A container's runtime may have moved its processes out of the class.
    commands += add_task(job, event.task)
    if before != event.task:  # only now: its own processes leave with it
        commands += remove_task(job, before)
    if not moved:
        return Branch.REG_AGAIN, commands
    return Branch.REG_MOVED, commands + settle(table, event, Cause.FREED)


def _expect(table: ProcessTable, job: JobState, expectation: Expectation) -> None:
    """Takes over what is known of a job. Its first processes may not know it."""
    job.expectation = expectation
    job.need = table.knowledge.need_of(expectation.kind, job.user)


def _add_task(table: ProcessTable, job: JobState, event: TaskRegistered) -> None:
    job.tasks[event.task] = event.cpus
    job.joined = True
    table.knowledge.started(job.user)


def _update_cpus(table: ProcessTable, job: JobState) -> list[Command]:
    """Takes over the CPUs of the job's tasks, or of its launchers, which changed."""
    members = job.tasks or job.launchers
    cpus: frozenset[int] = frozenset().union(*members.values())
    if cpus == job.cpus:
        table.tasks_changed()
        return []
    job.cpus = cpus
    table.regroup()
    return set_class_cpus(job)


def _learn(table: ProcessTable, job: JobState, now_ns: int) -> None:
    """Takes over the length of a job that has left."""
    length_ns, expected = job.age_ns(now_ns), job.expectation
    if job.starting:
        table.knowledge.add_bare_start(job.user, length_ns)
    elif job.received_is_complete:
        table.knowledge.learn(
            [Ended(length_ns, expected.kind, job.user, expected.mean_ns, job.need)]
        )
