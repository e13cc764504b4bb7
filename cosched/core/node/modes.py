"""How a job's owner wants it treated on a node, and what a change of mind takes.

    coscheduled  takes its turn like any other: what every job is at first
    raised       alone on its CPUs: no other job is scheduled on any of them. Several
                 raised jobs that want the same CPUs take turns
    suspended    stopped, all of its processes, until its owner resumes it
    released     running at the kernel's normal shares, as if cosched were not there

Not the paper's. A job *takes part* if it is coscheduled or raised: only such jobs are in a
group, have a share, and are ever scheduled. To its tasks a suspended job is unscheduled and
a released one scheduled, so that the first one's messages pull no switch elsewhere, and
the second one never sleeps for want of a turn.
"""

from __future__ import annotations

from collections.abc import Iterable

from cosched.core.node.groups import Competitor
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
    ThawClass,
)
from cosched.core.node.table import JobState

_CAUSES = {
    Mode.COSCHEDULED: Cause.RESUMED,
    Mode.RAISED: Cause.RAISED,
    Mode.SUSPENDED: Cause.SUSPENDED,
    Mode.RELEASED: Cause.RELEASED,
}


def cause_of(mode: Mode) -> Cause:
    """Why a job's status changed, if its owner chose this mode."""
    return _CAUSES[mode]


def change_mode(job: JobState, mode: Mode) -> list[Command]:
    """Puts the job, which is not scheduled, into another mode; what is to be done for it.

    Who runs instead, or whether it runs now, is for the caller to settle.
    """
    before, job.mode = job.mode, mode
    commands: list[Command] = [PublishMode(job.key, mode)]
    if before is Mode.SUSPENDED:
        commands.append(ThawClass(job.key))
    if before is Mode.RELEASED:
        commands.append(CreateClass(job.key, job.cpus))
        commands += [AddTask(job.key, task) for task in sorted(job.tasks)]
    if not mode.takes_part and job.contended:
        job.contended = False
        commands.append(PublishContention(job.key, False))
    if not (before.takes_part and mode.takes_part):
        job.epoch += 1
        released = mode is Mode.RELEASED
        commands.append(PublishStatus(job.key, job.epoch, released, cause_of(mode)))
    if mode is Mode.SUSPENDED:
        commands.append(FreezeClass(job.key))
    if mode is Mode.RELEASED:
        commands.append(DestroyClass(job.key))
    return commands


def admit_task(job: JobState, task: int, *, cpus_grew: bool) -> list[Command]:
    """What a new task of the job needs; its CPUs are the job's already."""
    if job.mode is Mode.RELEASED:
        return []
    commands: list[Command] = [CreateClass(job.key, job.cpus)] if cpus_grew else []
    commands.append(AddTask(job.key, task))
    if job.mode is Mode.SUSPENDED:
        commands.append(FreezeClass(job.key))  # the newcomer, too
    return commands


def is_barred(job: JobState, jobs: Iterable[Competitor]) -> bool:
    """Whether a job that is not raised wants a CPU that a raised one has to itself."""
    return not job.alone and any(
        other.alone and not job.cpus.isdisjoint(other.cpus) for other in jobs
    )
