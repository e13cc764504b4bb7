"""Splits a node's jobs into groups that compete for CPUs, and computes each job's share.

Jobs on disjoint CPU sets never compete. Jobs whose sets overlap compete only if their tasks
cannot each have a CPU: two jobs of two tasks run side by side on eight CPUs, and take turns
on two. A job without tasks, which has launchers alone, needs one CPU. A *group* is a set of
jobs that are connected by overlapping CPU sets.

Jobs *fit* side by side if each task can have a CPU that no other task has. A job always
fits alone, however many tasks it has. If some jobs fit, fewer of them also fit. A raised
job fits beside no job that uses one of its CPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cosched.core.node.cpu_need import mostly_waits
from cosched.core.node.job import JobState
from cosched.core.node.messages import Job

UNSCHEDULED_PERCENT = 1  #: the paper's share of an unscheduled class (section 2.2.2)
#: The share of all jobs together that compute while a job is scheduled that mostly waits.
#: They fill its waits before jobs that wait, too; the scheduled job wakes before them.
FILLING_PERCENT = 10


class LowShares(NamedTuple):
    """The shares of unscheduled classes, in percent of their CPUs."""

    waiting: int  #: one class
    #: All classes together that fill the waits of a scheduled job.
    filling: int


#: The paper's rule: 1%, with which a task looks for messages and computes.
PAPER_SHARES = LowShares(UNSCHEDULED_PERCENT, UNSCHEDULED_PERCENT)
#: The rule of the other orders. A task that waits sleeps, and traps messages all the same.
#: So an unscheduled class gets CPU time only if no scheduled task wants it: many classes
#: with 1% would take that from the scheduled job, in pieces that empty its caches.
IDLE_SHARES = LowShares(0, FILLING_PERCENT)


class Group:
    """Jobs that compete with each other, in the order of their submission."""

    def __init__(self, jobs: Iterable[JobState]) -> None:
        self.jobs = sorted(jobs, key=lambda job: job.precedence)
        #: The keys of the jobs. To look for a job itself would compare all its fields.
        self.keys = frozenset(job.key for job in self.jobs)

    @property
    def scheduled(self) -> list[JobState]:
        return [job for job in self.jobs if job.scheduled]

    @property
    def waiting(self) -> list[JobState]:
        return [job for job in self.jobs if not job.scheduled]

    @property
    def contended(self) -> bool:
        """Whether a job of the group waits while another one is scheduled."""
        return 0 < len(self.waiting) < len(self.jobs)

    @property
    def youngest_ns(self) -> int:
        """The least age of a job, without the present slices."""
        return min(job.received_ns for job in self.jobs)

    def least_used_ns(self, now_ns: int) -> int:
        """The CPU time of the job that has had least."""
        return min(job.used_ns(now_ns) for job in self.jobs)


def connected(jobs: Iterable[JobState]) -> list[list[JobState]]:
    """Splits the jobs into sets that are connected by overlapping CPU sets."""
    found: list[tuple[set[int], list[JobState]]] = []
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


def fits(jobs: Sequence[JobState]) -> bool:
    """Returns whether the jobs can run side by side, so that no two tasks share a CPU."""
    return all(
        len(members) == 1
        or (
            # Among several members, each overlaps with another one.
            not any(job.alone for job in members)
            and _have_a_cpu_each([cpus for job in members for cpus in job.needs])
        )
        for members in connected(jobs)
    )


def _have_a_cpu_each(tasks: Sequence[frozenset[int]]) -> bool:
    """Returns whether every task can have one of its CPUs for itself.

    Bipartite matching by augmenting paths; the tasks with the fewest CPUs come first.
    """
    union: frozenset[int] = frozenset().union(*tasks)
    if len(tasks) > len(union):
        return False
    if all(cpus == union for cpus in tasks):
        return True  # no task is pinned: counting is enough
    task_on: dict[int, int] = {}
    cpu_of: dict[int, int] = {}
    for start in sorted(range(len(tasks)), key=lambda task: len(tasks[task])):
        free, reached_by = _free_cpu(start, tasks, task_on)
        if free is None:
            return False
        while True:  # every task on the path moves on by one CPU
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
    """Finds a CPU that ``start`` can have if other tasks move.

    Also returns the task that reached each CPU on the way.
    """
    reached_by: dict[int, int] = {}
    queue = [start]
    for task in queue:  # the loop appends to the queue
        for cpu in tasks[task] - reached_by.keys():
            reached_by[cpu] = task
            if cpu not in task_on:
                return cpu, reached_by
            queue.append(task_on[cpu])
    return None, reached_by


def is_waiting_share(percent: int) -> bool:
    """Returns whether a class with this share is unscheduled: a scheduled one has more."""
    return percent <= FILLING_PERCENT


def fills(job: JobState, scheduled: Iterable[JobState]) -> bool:
    """Returns whether an unscheduled job can compute in the waits of a scheduled one."""
    return not mostly_waits(job.need) and any(mostly_waits(s.need) for s in scheduled)


def _waiting_percents(group: Group, low: LowShares) -> dict[Job, int]:
    """Returns the percentage of each unscheduled job."""
    waiting = group.waiting
    percents = dict.fromkeys((job.key for job in waiting), low.waiting)
    waits = [job for job in group.scheduled if mostly_waits(job.need)]
    filling = [job.key for job in waiting if fills(job, waits)] if waits else []
    if filling:
        each = max(UNSCHEDULED_PERCENT, low.filling // len(filling))
        percents |= dict.fromkeys(filling, each)
    return percents


def share_percents(groups: Iterable[Group], low: LowShares) -> dict[Job, int]:
    """Returns the percentage of its CPUs that each job of these groups gets.

    An unscheduled class gets ``low.waiting``. Those that can compute in the waits of a
    scheduled class get ``low.filling`` together, and at least 1% each. A scheduled class
    gets what the unscheduled classes of its group leave. Scheduled jobs side by side take
    nothing from each other, because each task has a CPU. With more than 50 unscheduled
    classes of 1%, the scheduled class gets as much as all of them together: the paper's
    rule would leave it less.
    """
    percents: dict[Job, int] = {}
    for group in groups:
        lows = _waiting_percents(group, low)
        taken = sum(lows.values())
        high = min(100, max(100 - taken, taken))
        for job in group.jobs:
            percents[job.key] = lows.get(job.key, high)
    return dict(sorted(percents.items()))
