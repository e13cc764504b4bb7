"""Holds the jobs of a simulation as columns of eight bytes a value."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from enum import Enum

from cosched.core.cluster.queue.job import Job


class Estimates(str, Enum):
    """Which duration of a job the scheduler expects."""

    LOG = "log"  # the walltime its user asked for
    EXACT = "exact"  # its actual run time


def _column() -> array[int]:
    return array("q")


_COLUMNS = (
    *("number", "submit_ns", "run_ns", "size"),
    *("walltime_ns", "user", "executable"),
)


@dataclass(slots=True)
class Workload:
    """Jobs by time of submission, a column for each of their values."""

    name: str  #: the log's file, or the name of its generator
    machine: int  #: nodes of the machine; 0 until the header is read
    number: array[int] = field(default_factory=_column)  #: as in the log, -1 if unknown
    submit_ns: array[int] = field(default_factory=_column)  #: from the log's time 0
    run_ns: array[int] = field(default_factory=_column)  #: from start to end
    size: array[int] = field(default_factory=_column)  #: nodes
    #: The requested time, or the run time if the log has no request.
    walltime_ns: array[int] = field(default_factory=_column)
    user: array[int] = field(default_factory=_column)  #: as in the log, -1 if unknown
    executable: array[int] = field(default_factory=_column)  #: as in the log, -1 if unknown

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
        """Adds a job; ``sort_by_submission`` brings the jobs into order."""
        self.number.append(number)
        self.submit_ns.append(submit_ns)
        self.run_ns.append(run_ns)
        self.size.append(size)
        self.walltime_ns.append(walltime_ns)
        self.user.append(user)
        self.executable.append(executable)

    def sort_by_submission(self) -> None:
        """Brings jobs that were added in another order into that of their submission."""
        order = sorted(range(len(self)), key=self.submit_ns.__getitem__)
        if order == list(range(len(self))):
            return
        for name in _COLUMNS:
            column: array[int] = getattr(self, name)
            setattr(self, name, array("q", [column[at] for at in order]))

    def moved(self, by_ns: int, begin_ns: int = 0, end_ns: int | None = None) -> Workload:
        """Returns the jobs submitted from ``begin_ns`` to before ``end_ns``, each moved by
        ``by_ns``."""
        first = bisect_left(self.submit_ns, begin_ns)
        last = len(self) if end_ns is None else bisect_left(self.submit_ns, end_ns)
        part = self._part(slice(first, last))
        part.submit_ns = array("q", [submit_ns + by_ns for submit_ns in part.submit_ns])
        return part

    def first(self, jobs: int) -> Workload:
        """Returns the first ``jobs`` jobs, or all if there are fewer."""
        return self._part(slice(jobs))

    def _part(self, places: slice) -> Workload:
        columns = {name: getattr(self, name)[places] for name in _COLUMNS}
        return Workload(self.name, self.machine, **columns)

    def job(self, index: int, estimates: Estimates) -> Job:
        """Returns the job for the queue. Its number there is its index, since numbers in
        logs are not always unique."""
        walltime = self.walltime_ns if estimates is Estimates.LOG else self.run_ns
        return Job(index, self.size[index], max(1, walltime[index]), self.submit_ns[index])
