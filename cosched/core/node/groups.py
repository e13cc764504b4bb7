"""Which jobs compete for the CPUs of a node, and what share each one gets.

Jobs whose CPU sets do not overlap never compete. Jobs whose sets do overlap compete when
their tasks cannot all have a CPU of their own: two jobs of two tasks on eight CPUs run
side by side, on two CPUs they take turns. A *group* is a set of jobs connected by
overlapping CPU sets; jobs *fit* when in each of their groups every task can be matched
with a CPU that it may use and that no other task has. A job alone always fits, however
many tasks it has; and what fits still fits without one of its jobs. A job that is to be
*alone* fits beside nothing that wants one of its CPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

UNSCHEDULED_PERCENT = 1  #: the share of an unscheduled class (section 2.2.2)


class Competitor(Protocol):
    """What this module needs to know of a job."""

    @property
    def key(self) -> str: ...
    @property
    def cpus(self) -> frozenset[int]: ...
    @property
    def tasks(self) -> Mapping[int, frozenset[int]]: ...
    @property
    def alone(self) -> bool: ...


J = TypeVar("J", bound=Competitor)


def groups(jobs: Iterable[J]) -> list[list[J]]:
    """The jobs split into groups connected by overlapping CPU sets, in the given order."""
    found: list[tuple[set[int], list[J]]] = []
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
    """Whether the jobs can run side by side without two tasks sharing a CPU."""
    if len(jobs) == 1:
        return True
    return all(
        len(group) == 1
        or (
            # In a group of several, each overlaps with another.
            not any(job.alone for job in group)
            and _have_a_cpu_each([cpus for job in group for cpus in job.tasks.values()])
        )
        for group in groups(jobs)
    )


def _have_a_cpu_each(tasks: Sequence[frozenset[int]]) -> bool:
    """Whether every task can have a CPU of its own out of those it may use.

    Bipartite matching by augmenting paths, the tasks with the fewest CPUs first.
    """
    union: frozenset[int] = frozenset().union(*tasks)
    if len(tasks) > len(union):
        return False
    if all(cpus == union for cpus in tasks):
        return True  # nobody is pinned: counting is enough
    task_on: dict[int, int] = {}
    cpu_of: dict[int, int] = {}
    for start in sorted(range(len(tasks)), key=lambda task: len(tasks[task])):
        free, reached_by = _free_cpu(start, tasks, task_on)
        if free is None:
            return False
        while True:  # everyone on the path moves on by one CPU
            task = reached_by[free]
            left = cpu_of.get(task)
            task_on[free], cpu_of[task] = task, free
            if left is None:
                break
            free = left
    return True


def _free_cpu(
    start: int, tasks: Sequence[frozenset[int]], task_on: Mapping[int, int]
) -> tuple[int | None, Mapping[int, int]]:
    """A CPU that becomes available to ``start`` if others move, and by whom each CPU on
    the way was reached."""
    reached_by: dict[int, int] = {}
    queue = [start]
    for task in queue:  # grows while we walk it
        for cpu in tasks[task] - reached_by.keys():
            reached_by[cpu] = task
            if cpu not in task_on:
                return cpu, reached_by
            queue.append(task_on[cpu])
    return None, reached_by


class Fitting:
    """``fits``, remembered: at a switch the same few sets of jobs are asked about again.

    Call ``forget`` when a job, a task or a CPU set changes.
    """

    #: Sets remembered at most; many jobs side by side make many of them.
    LIMIT = 4096

    def __init__(self) -> None:
        self._known: dict[frozenset[str], bool] = {}

    def forget(self) -> None:
        """Everything may be different now."""
        self._known.clear()

    def fits(self, jobs: Sequence[Competitor]) -> bool:
        """As the function ``fits``."""
        keys = frozenset([job.key for job in jobs])
        known = self._known.get(keys)
        if known is None:
            if len(self._known) >= self.LIMIT:
                self.forget()
            known = self._known[keys] = fits(jobs)
        return known

    def fill(self, kept: Sequence[J], order: Iterable[J]) -> list[J]:
        """``kept`` and, in ``order``, every further job that fits beside those before."""
        chosen = list(kept)
        for job in order:
            if job not in chosen and self.fits([*chosen, job]):
                chosen.append(job)
        return chosen


def shares(
    grouped: Iterable[Sequence[Competitor]], scheduled: frozenset[str]
) -> tuple[tuple[str, int], ...]:
    """The percentage of its CPUs for each job of these groups, sorted by key.

    In each group an unscheduled class gets 1%, and a scheduled one what these leave of the
    CPUs that it is on: those side by side have a CPU for each task, and take nothing from
    each other. With more than 50 unscheduled classes the scheduled one gets as much as all
    of them together, since the paper's rule would leave it less than that.
    """
    result: dict[str, int] = {}
    for group in grouped:
        waiting = sum(job.key not in scheduled for job in group)
        if waiting == len(group):
            result.update((job.key, UNSCHEDULED_PERCENT) for job in group)
            continue
        low = UNSCHEDULED_PERCENT * waiting
        high = min(100, max(100 - low, low))
        for job in group:
            result[job.key] = high if job.key in scheduled else UNSCHEDULED_PERCENT
    return tuple(sorted(result.items()))
