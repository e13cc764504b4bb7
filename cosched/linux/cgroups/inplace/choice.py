"""Chooses the groups that serve as classes in place. Pure.

A job's class in place is one group or several that hold tasks of this job alone: the step
of a batch job, or the containers of its ranks. For each task it is the outermost group
inside the engine's group of the job (``job_groups.job_group``) that no other job has a task
in. If two jobs share a step, neither has a class in place.
"""

from __future__ import annotations

from collections.abc import Mapping

from cosched.core.named_tuples import NamedTuple
from cosched.linux.cgroups.inplace.job_groups import Group, job_group


class Refusal(NamedTuple):
    """Why a task has no class in place."""

    reason: str  #: a text for people


def path_text(group: Group) -> str:
    """Returns the group as in /proc/PID/cgroup."""
    return "/" + "/".join(group)


def choose(tasks: Mapping[int, tuple[str, Group]]) -> dict[int, Group | Refusal]:
    """Returns the class group of each task, or why there is none.

    ``tasks``: the job and the group of each task, by pid. All tasks of the node that were
    not moved must be there, also tasks that cannot have a class in place."""
    jobs: dict[Group, set[str]] = {}
    for job, group in tasks.values():
        for length in range(len(group) + 1):
            jobs.setdefault(group[:length], set()).add(job)
    return {pid: _choose(job, group, jobs) for pid, (job, group) in tasks.items()}


def _choose(job: str, group: Group, jobs: Mapping[Group, set[str]]) -> Group | Refusal:
    outermost = job_group(group)
    if outermost is None:
        return Refusal(f"{path_text(group)} is not a group of one job")
    for length in range(outermost, len(group) + 1):
        if jobs[group[:length]] == {job}:
            return group[:length]
    others = ", ".join(sorted(jobs[group] - {job}))
    return Refusal(f"{path_text(group)} also holds tasks of job {others}")
