"""Finds the levels at which jobs compete, and the weights there. Pure arithmetic.

The kernel divides the CPU time of a group among its children by their weights. So two jobs
compete where their paths part: at the children of their last common group. With Slurm and
version 1, two jobs of one user part at ``uid_U``, and jobs of two users part above it:

    slurm/uid_1/job_1    slurm/uid_1/job_2    slurm/uid_2/job_3

Each common group with children that lead to different jobs is a *level*. With ``job_1``
scheduled, ``job_2`` weighs little beside ``job_1``, and ``uid_2`` beside ``uid_1``.

**A group never weighs more than its engine gave it.** A child that leads to a scheduled job
keeps its standing weight. A child that leads to unscheduled jobs only gets 1% of the
least standing weight for each CPU that its tasks can use. So a program beside the jobs
never gets less than without cosched, and giving back is restoring the standing weights.

**Where weights are not enough, a quota bounds the unscheduled job** to 1% of its CPUs. It
then cannot use time that the scheduled job leaves. That happens in three cases:

    mixed group    a group on the way to the level also holds other programs (a user's
                   slice with a login session): its weight is theirs too
    others         a competing job is not in place: it was moved, or has no class
    coarse weight  the kernel's least weight is too heavy beside the scheduled job's
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from cosched.core.named_tuples import NamedTuple
from cosched.core.node.groups import is_waiting_share
from cosched.linux.cgroups.inplace.job_groups import Group

# An unscheduled job may get this many times its share before a quota bounds it.
_TOLERANCE = 2.0
# The share of an unscheduled job, whatever the order: an engine's weights are too coarse
# for less.
_LEAST_PERCENT = 1


class Part(NamedTuple):
    """One class group of a job, and its demand."""

    job: str  #: the key of the job
    cpus: frozenset[int]  #: the CPUs that the job's tasks may use
    members: int  #: the number of the job's tasks in this group
    job_members: int  #: the number of the job's tasks in all its groups
    #: The job's share; None: it takes no part, for example while it is suspended.
    percent: int | None

    @property
    def scheduled(self) -> bool:
        return self.percent is None or not is_waiting_share(self.percent)

    @property
    def width(self) -> float:
        """The CPUs that the job uses through this group, which threads may fill."""
        return max(1.0, len(self.cpus) * self.members / max(1, self.job_members))

    @property
    def unscheduled_width(self) -> int:
        """The most CPUs that the tasks of this group use while the job waits."""
        return max(1, min(len(self.cpus), self.members))


class Plan(NamedTuple):
    """The groups that get weights, and the jobs that quotas bound."""

    levels: tuple[tuple[Group, ...], ...]  #: each level is a set of sibling groups
    bounded: Mapping[str, str]  #: by job: why a quota bounds it, a text for people


def find_levels(classes: Mapping[Group, str]) -> list[tuple[Group, ...]]:
    """Returns the sets of siblings that lead to different jobs, outermost first.

    ``classes``: the job of each class group. No class group lies inside another one."""
    below: dict[Group, dict[Group, set[str]]] = {}
    for group, job in classes.items():
        for length in range(len(group)):
            children = below.setdefault(group[:length], {})
            children.setdefault(group[: length + 1], set()).add(job)
    return [
        tuple(sorted(children))
        for _, children in sorted(below.items())
        if len(children) > 1 and len(set().union(*children.values())) > 1
    ]


def make_plan(
    classes: Mapping[Group, str], mixed: Collection[Group], others: Mapping[str, str]
) -> Plan:
    """Returns which groups get weights and which jobs are bounded by quotas.

    mixed: the groups among all levels' that also hold other programs and are no class
    groups. others: for each job that competes with a job outside of these classes, why."""
    levels = find_levels(classes)
    bounded = {job: others[job] for job in classes.values() if job in others}
    for level in levels:
        for child in level:
            if child in mixed:
                reason = f"/{'/'.join(child)} also holds other programs"
                bounded |= {j: bounded.get(j, reason) for j in _jobs_in(child, classes)}
    steerable = (tuple(g for g in level if g not in mixed) for level in levels)
    return Plan(tuple(level for level in steerable if level), bounded)


def _jobs_in(group: Group, classes: Mapping[Group, str]) -> set[str]:
    return {job for c, job in classes.items() if c[: len(group)] == group}


def level_weights(
    level: Sequence[Group],
    standing: Mapping[Group, int],
    parts: Mapping[Group, Part],
    low: int,
) -> tuple[dict[Group, int], frozenset[str]]:
    """Returns the weight of each group of a level, and the jobs that it leaves too heavy.

    standing: the groups' weights without cosched. parts: the class groups of the whole
    tree. low: the kernel's least weight."""
    inside = {group: _parts_in(group, parts) for group in level}
    # The least weight that a scheduled job of this level has on one of its CPUs.
    density = min(standing[group] / _width(inside[group]) for group in level)
    weights: dict[Group, int] = {}
    heavy: set[str] = set()
    for group in level:
        if any(part.scheduled for part in inside[group]):
            weights[group] = standing[group]
            continue
        width = sum(part.unscheduled_width for part in inside[group])
        wanted = density * width * _LEAST_PERCENT / 100
        weights[group] = min(standing[group], max(low, math.ceil(wanted)))
        if weights[group] > _TOLERANCE * wanted:
            heavy |= {part.job for part in inside[group]}
    return weights, frozenset(heavy)


def _parts_in(group: Group, parts: Mapping[Group, Part]) -> list[Part]:
    return [part for g, part in parts.items() if g[: len(group)] == group]


def _width(parts: Sequence[Part]) -> float:
    together = frozenset[int]().union(*(part.cpus for part in parts))
    return max(1.0, min(len(together), sum(part.width for part in parts)))


def quota_us(part: Part, period_us: int, *, strict: bool) -> int | None:
    """Returns the time per period of a class group; None for no quota.

    With ``strict`` a scheduled job has a quota too, as the paper has it."""
    if part.percent is None or part.percent >= 100:
        return None
    if part.scheduled:
        if not strict:
            return None
        width = part.width
    else:
        width = part.unscheduled_width
    return math.ceil(max(part.percent, _LEAST_PERCENT) * width * period_us / 100)
