"""Assigns the resources of one node to the tasks of a job (section 4.1).

The central manager counted that there are enough; the node's agent chooses which. A unit
that jobs share, such as a core under coscheduling, can be assigned to several jobs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cosched.core.errors import CoschedError


@dataclass(frozen=True, slots=True)
class Units:
    """The numbers of a resource's units on a node."""

    numbers: tuple[int, ...]  #: the units' numbers
    #: How many jobs a unit serves at once, as a mean over the units; 1: no two jobs ever
    #: have the same unit.
    jobs: int = 1


#: For each task of a job: the units that it has, by resource.
Assignment = tuple[Mapping[str, tuple[int, ...]], ...]


class Pool:
    """The units of one resource on one node, and how many jobs use each. A job that has a
    unit alone counts as all jobs that it can serve."""

    __slots__ = ("_uses", "jobs")

    def __init__(self, units: Units) -> None:
        self.jobs = units.jobs  #: that a unit can serve; a lower number ends no use
        self._uses = dict.fromkeys(sorted(units.numbers), 0)

    @property
    def total(self) -> int:
        """How many units jobs can use at a time."""
        return len(self._uses) * self.jobs

    def free(self) -> list[int]:
        """Returns the units that a further job can use: the least used ones first, and of
        these the lowest ones.

        A shared unit may serve more jobs than ``jobs`` while another one serves fewer: the
        manager counts uses, and the tasks of one job never share a unit.
        """
        uses = self._uses
        if self.jobs == 1:
            return [unit for unit, used in uses.items() if not used]
        left = self.total - sum(uses.values())
        return sorted(uses, key=uses.__getitem__)[: max(0, left)]

    def use(self, units: Iterable[int], jobs: int = 1) -> None:
        """Adds a number of jobs to each of these units; -1: one fewer."""
        for unit in units:
            self._uses[unit] += jobs


class Inventory:
    """The resources of one node, and the jobs that have them."""

    def __init__(self, units: Mapping[str, Units]) -> None:
        self._pools = {name: Pool(of) for name, of in units.items()}
        self._jobs: dict[int, tuple[Assignment, int]] = {}
        self._lent: set[int] = set()  # jobs whose units others may have

    @property
    def totals(self) -> dict[str, int]:
        """The counts that the central manager has of this node."""
        return {name: pool.total for name, pool in self._pools.items()}

    @property
    def jobs(self) -> Mapping[int, Assignment]:
        """The assignments of the jobs on the node."""
        return {job: made for job, (made, _) in self._jobs.items()}

    def share(self, jobs: int) -> None:
        """Sets the number of jobs that each unit serves from now on."""
        for pool in self._pools.values():
            pool.jobs = jobs

    def assign(
        self,
        job: int,
        tasks: int,
        per_task: Mapping[str, int],
        among: Collection[int] | None = None,
        uses: int = 1,
    ) -> Assignment:
        """Assigns units to each task: the least used ones, and of these the lowest numbers.

        among: the units of the part of the node that the job has; None: all. uses: the jobs
        for which it counts at each unit. Raises CoschedError, and assigns nothing, if the
        node lacks units.
        """
        if job in self._jobs:
            raise CoschedError(f"job {job}: has resources of this node already")
        chosen = {
            name: self._choose(job, name, number, tasks, among)
            for name, number in per_task.items()
            if number
        }
        made = tuple(
            {name: found[task] for name, found in chosen.items()} for task in range(tasks)
        )
        self._jobs[job] = made, uses
        self._count(made, uses)
        return made

    def release(self, job: int) -> None:
        """Frees the units of a job."""
        if job not in self._jobs:
            raise CoschedError(f"job {job}: has no resources of this node")
        self.take_back(job)
        made, uses = self._jobs.pop(job)
        self._count(made, -uses)

    def lend(self, job: int) -> None:
        """Lets other jobs have the units of a job, which stands still; ignores a job that
        has none, or has lent them."""
        if job in self._jobs and job not in self._lent:
            self._lent.add(job)
            made, uses = self._jobs[job]
            self._count(made, -uses)

    def take_back(self, job: int) -> None:
        """Ends a loan, if there is one. Others that have the units keep them until they
        end."""
        if job in self._lent:
            self._lent.discard(job)
            self._count(*self._jobs[job])

    def _choose(
        self, job: int, name: str, number: int, tasks: int, among: Collection[int] | None
    ) -> list[tuple[int, ...]]:
        free = self._pools[name].free() if name in self._pools else []
        if among is not None:
            free = [unit for unit in free if unit in among]
        if len(free) < number * tasks:
            raise CoschedError(
                f"job {job}: needs {number * tasks} {name} on this node, which has "
                f"{len(free)} free"
            )
        taken = sorted(free[: number * tasks])
        return [tuple(taken[at : at + number]) for at in range(0, len(taken), number)]

    def _count(self, made: Assignment, change: int) -> None:
        for task in made:
            for name, units in task.items():
                self._pools[name].use(units, change)
