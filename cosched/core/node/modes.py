"""Changes the mode of a job: coscheduled, raised, suspended, released or resting. Its owner
chooses it.

    coscheduled  takes turns; every job begins so
    raised       has its CPUs alone: no other job is scheduled on them. Raised jobs that
                 share CPUs take turns
    suspended    all its processes are stopped until its owner resumes it
    released     runs at the kernel's normal shares, as if cosched were not there
    resting      is stopped for a moment by the node, not by its owner (``resting_jobs``)

The paper has no modes. A job *takes part* if it is coscheduled or raised: only such jobs
are in a group, have a share, and are scheduled. To its tasks a suspended job is
unscheduled, so its messages pull no switch on other nodes. To its tasks a released job is
scheduled, so they never sleep while they wait for a turn.
"""

from __future__ import annotations

from cosched.core.node.job import JobState
from cosched.core.node.messages import (
    AddTask,
    Cause,
    Command,
    CreateClass,
    DestroyClass,
    FreezeClass,
    Mode,
    PublishContention,
    PublishMode,
    PublishStatus,
    RemoveTask,
    SetClassCpus,
    ThawClass,
)

#: Why a job's status changed if its owner chose this mode.
CAUSES = {
    Mode.COSCHEDULED: Cause.RESUMED,
    Mode.RAISED: Cause.RAISED,
    Mode.SUSPENDED: Cause.SUSPENDED,
    Mode.RELEASED: Cause.RELEASED,
    Mode.RESTING: Cause.RESTING,
}


def change_mode(
    job: JobState, mode: Mode, now_ns: int, cause: Cause | None = None
) -> list[Command]:
    """Puts the job into another mode; the caller then reschedules the node. cause: why its
    status changes; None: its owner chose the mode."""
    cause = cause or CAUSES[mode]
    if not mode.takes_part:
        job.account(now_ns)
        job.scheduled = job.awaits_gmet = job.awaits_switch = False
    if mode is Mode.RELEASED:
        job.received_is_complete = False
    before, job.mode = job.mode, mode
    # The next daemon, or the guardian, continues a job whose published mode stops it.
    commands: list[Command] = [ThawClass(job.key)] if before.stops else []
    commands.append(PublishMode(job.key, mode))
    if before is Mode.RELEASED:
        commands.append(CreateClass(job.key, job.cpus))
        commands += [AddTask(job.key, task) for task in sorted(job.members)]
    if not mode.takes_part and job.contended:
        job.contended = False
        commands.append(PublishContention(job.key, False))
    unchanged = (before.takes_part and mode.takes_part) or cause is Cause.RESTED
    if not unchanged:
        released = mode is Mode.RELEASED
        commands.append(PublishStatus(job.key, job.next_epoch(), released, cause))
    if mode.stops:
        commands.append(FreezeClass(job.key))
    if mode is Mode.RELEASED:
        commands.append(DestroyClass(job.key))
    return commands


def create_class(job: JobState) -> list[Command]:
    """Makes the class of a new job."""
    return [CreateClass(job.key, job.cpus)]


def set_class_cpus(job: JobState) -> list[Command]:
    """Notes the CPUs of the job's class; a released job has no class."""
    return [] if job.mode is Mode.RELEASED else [SetClassCpus(job.key, job.cpus)]


def add_task(job: JobState, task: int) -> list[Command]:
    """Moves a task into the job's class, and stops it if the job is stopped."""
    if job.mode is Mode.RELEASED:
        return []
    frozen = [FreezeClass(job.key)] if job.mode.stops else []
    return [AddTask(job.key, task), *frozen]


def remove_task(job: JobState, task: int) -> list[Command]:
    """Moves a task out of the job's class."""
    return [] if job.mode is Mode.RELEASED else [RemoveTask(job.key, task)]


def destroy_class(job: JobState) -> list[Command]:
    """Removes the job's class."""
    return [] if job.mode is Mode.RELEASED else [DestroyClass(job.key)]
