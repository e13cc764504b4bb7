"""The jobs of a simulation, as columns: eight bytes a value, whatever the log's length."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from enum import Enum

from cosched.core.cluster.queue.messages import Job


class Estimates(str, Enum):
    """What the scheduler is told of a job's duration."""

    LOG = "log"  # the walltime its user asked for
    EXACT = "exact"  # how long it will run


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Workload:
    """Jobs by time of submission, for a machine of so many nodes.

    number, user, executable: as in the log, -1 if unknown. walltime_ns: what the user
    asked for, or the run time where the log does not say.
    """

    name: str
    machine: int
    number: array[int] = field(default_factory=_column)
    submit_ns: array[int] = field(default_factory=_column)
    run_ns: array[int] = field(default_factory=_column)
    size: array[int] = field(default_factory=_column)
    walltime_ns: array[int] = field(default_factory=_column)
    user: array[int] = field(default_factory=_column)
    executable: array[int] = field(default_factory=_column)

    def __len__(self) -> int:
        return len(self.number)

    def append(
        self,
        number: int,
        submit_ns: int,
        run_ns: int,
        size: int,
        walltime_ns: int,
        user: int = -1,
        executable: int = -1,
    ) -> None:
        """One more job, not submitted before the last."""
        self.number.append(number)
        self.submit_ns.append(submit_ns)
        self.run_ns.append(run_ns)
        self.size.append(size)
        self.walltime_ns.append(walltime_ns)
        self.user.append(user)
        self.executable.append(executable)

    def moved(self, by_ns: int, begin_ns: int = 0, end_ns: int | None = None) -> Workload:
        """A copy with the jobs submitted from ``begin_ns`` until before ``end_ns``, each
        ``by_ns`` later."""
        copy = Workload(self.name, self.machine)
        first = bisect_left(self.submit_ns, begin_ns)
        last = len(self) if end_ns is None else bisect_left(self.submit_ns, end_ns)
        for index in range(first, last):
            copy.append(
                self.number[index],
                self.submit_ns[index] + by_ns,
                self.run_ns[index],
                self.size[index],
                self.walltime_ns[index],
                self.user[index],
                self.executable[index],
            )
        return copy

    def job(self, index: int, estimates: Estimates) -> Job:
        """The job as the queue sees it, known there by its index: numbers in logs are
        not always unique."""
        told = self.walltime_ns if estimates is Estimates.LOG else self.run_ns
        return Job(index, self.size[index], max(1, told[index]), self.submit_ns[index])
