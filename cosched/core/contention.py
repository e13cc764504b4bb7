"""Which jobs compete for the CPUs of a node, and what share each one gets.

Jobs whose CPU sets do not overlap never compete. Jobs whose sets do overlap compete when
they have more tasks than CPUs between them: two jobs of two tasks on eight CPUs run side
by side, on two CPUs they take turns. A *group* is a set of jobs connected by overlapping
CPU sets; a set of jobs *fits* when each of its groups has a CPU for every task. A job
alone always fits, however many tasks it has.

Limit: a group is measured as a whole, so tasks pinned unevenly inside overlapping sets
may be taken to fit although two of them share a CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

UNSCHEDULED_PERCENT = 1  #: the share of an unscheduled class (section 2.2.2)


class Competitor(Protocol):
    """What this module needs to know of a job."""

    @property
    def key(self) -> str: ...
    @property
    def cpus(self) -> frozenset[int]: ...
    @property
    def tasks(self) -> Mapping[int, frozenset[int]]: ...


def groups(jobs: Iterable[Competitor]) -> list[list[Competitor]]:
    """The jobs split into groups connected by overlapping CPU sets, in the given order."""
    found: list[tuple[set[int], list[Competitor]]] = []
    for job in jobs:
        cpus, members = set(job.cpus), [job]
        apart = []
        for other_cpus, other_members in found:
            if cpus.isdisjoint(other_cpus):
                apart.append((other_cpus, other_members))
            else:
                cpus |= other_cpus
                members = other_members + members
        found = [*apart, (cpus, members)]
    return [members for _, members in found]


def fits(jobs: Sequence[Competitor]) -> bool:
    """Whether the jobs can run side by side without sharing a CPU."""
    for group in groups(jobs):
        if len(group) > 1:
            cpus = frozenset().union(*(job.cpus for job in group))
            if sum(len(job.tasks) for job in group) > len(cpus):
                return False
    return True


def fill(kept: Sequence[Competitor], order: Iterable[Competitor]) -> list[Competitor]:
    """``kept`` and, in ``order``, every further job that fits beside those before it."""
    chosen = list(kept)
    for job in order:
        if job not in chosen and fits([*chosen, job]):
            chosen.append(job)
    return chosen


def shares(
    jobs: Iterable[Competitor], scheduled: frozenset[str]
) -> tuple[tuple[str, int], ...]:
    """The percentage of its CPUs for each job, sorted by key.

    In each group an unscheduled class gets 1% and the scheduled ones the rest, divided
    by their tasks where several run side by side; a group's percentages add up to 100.
    With more than 50 unscheduled classes they share half of the CPU between them, since
    the paper's rule would leave the scheduled class with less than one of them.
    """
    result: dict[str, int] = {}
    for group in groups(jobs):
        running = [job for job in group if job.key in scheduled]
        waiting = [job for job in group if job.key not in scheduled]
        if not running:
            result.update((job.key, UNSCHEDULED_PERCENT) for job in waiting)
            continue
        rest = max(50, 100 - UNSCHEDULED_PERCENT * len(waiting))
        result.update((job.key, UNSCHEDULED_PERCENT) for job in waiting)
        total = sum(len(job.tasks) for job in running)
        for job in sorted(running, key=lambda j: j.key):
            part = rest * len(job.tasks) // total if total else rest
            result[job.key] = part
            rest, total = rest - part, total - len(job.tasks)
    return tuple(sorted(result.items()))
