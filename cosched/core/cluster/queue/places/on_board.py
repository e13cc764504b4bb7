"""Plans with the jobs on the parts of nodes, where a count of free nodes is not enough.

Which parts suit a job depends on the jobs that have the others. So the spot of the first
waiting job is a plan, tried on a copy of the board. A later job that would run on after
that time starts only if the first one still fits beside it. A pass tries one of the jobs
that are alike but for their times, and so costs about kinds of jobs x running jobs.

A job that shares a node may exceed its walltime, so it is expected to take some time more,
repeatedly.

Limits: jobs here wait for no mates in other domains.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import insort
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec.structs import replace

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import (
    Intervals,
    common,
    count,
    numbers,
    union,
    without,
)
from cosched.core.cluster.queue.places.place import Freed, Place, Row, Spot
from cosched.core.errors import CoschedError

_Copied = TypeVar("_Copied")


class Board(Protocol):
    """The jobs on the parts of nodes. free: parts in service without a job. in_service: how
    many nodes are."""

    @property
    def free(self) -> int: ...

    @property
    def in_service(self) -> int: ...

    def copy(self: _Copied) -> _Copied:
        """Returns a copy, for a plan."""

    def place(self, job: Any, spot: Spot) -> None:
        """Gives a job a spot."""

    def remove(self, number: JobId) -> None:
        """Removes a job and frees its spot."""

    def withdraw(self, nodes: Iterable[int]) -> None:
        """Removes nodes from service, also such as were never in it."""

    def admit(self, nodes: Iterable[int]) -> None:
        """Puts nodes into service."""


_Board = TypeVar("_Board", bound=Board)


class OnBoard(Place, Generic[_Board]):
    """Nodes whose parts a board has. Ends are (expected end, number, size).

    board: for reading.
    """

    def __init__(self, board: _Board, nodes: Intervals, overrun_ns: int) -> None:
        self.board = board
        self.board.admit(numbers(nodes))
        self.moved = 0
        self._nodes = nodes
        self._most = 0
        self._overrun_ns = overrun_ns
        self._ends: list[tuple[int, JobId, int]] = []
        # The first waiting job, and the board at the time when it is expected to start.
        self._first: tuple[Job, _Board] | None = None
        self._trial: tuple[Spot, _Board] | None = None  # with the last job of ``beside``

    @abstractmethod
    def _fit(self, job: Job, board: _Board) -> Spot | None:
        """Returns a spot for a job on a board; None if there is none."""

    @property
    def rows(self) -> Sequence[Row] | None:
        return None

    @property
    def free(self) -> int:  # type: ignore[override]
        return self.board.free

    @property
    def in_service(self) -> int:
        return self.board.in_service

    @property
    def _most_nodes(self) -> int:
        """How many nodes there are or are expected."""
        return max(count(self._nodes), self._most)

    @property
    def ends(self) -> Sequence[tuple[int, JobId, int]]:
        return self._ends

    # --- spots ----------------------------------------------------------------------------

    def shape(self, job: Job) -> Hashable:
        """Returns the job without its name and its times."""
        return replace(job, number=0, walltime_ns=0, submit_ns=0, limited=True, known=True)

    def find(self, job: Job) -> Spot | None:
        return self._fit(job, self.board)

    def beside(self, job: Job, spot: Spot) -> Spot | None:
        assert self._first is not None
        first, later = self._first
        trial = later.copy()
        trial.place(job, spot)
        if self._fit(first, trial) is None:
            return None
        self._trial = spot, trial
        return spot

    def keep_for(self, job: Job) -> int:
        later = self.board.copy()
        at_ns = 0
        for end_ns, number, _ in self._ends:
            enough = at_ns and end_ns > at_ns and later.free >= job.size
            if enough and self._fit(job, later) is not None:
                break
            later.remove(number)
            at_ns = end_ns
        self._first = job, later
        return at_ns

    # --- jobs -----------------------------------------------------------------------------

    def _start(self, job: Job, spot: Spot, now_ns: int) -> None:
        """Places a job on the spot that ``find`` or ``beside`` returned."""
        self.board.place(job, spot)
        if self._first and self._trial is not None and self._trial[0] is spot:
            self._first = self._first[0], self._trial[1]
        self._expect_end(job, now_ns)

    def _expect_end(self, job: Job, since_ns: int) -> None:
        insort(self._ends, (since_ns + job.walltime_ns, job.number, job.size))

    def release(self, number: JobId) -> Freed | None:
        self.board.remove(number)
        place = next(at for at, entry in enumerate(self._ends) if entry[1] == number)
        end_ns, _, size = self._ends.pop(place)
        return 0, end_ns, size

    def extend(self, now_ns: int) -> int:
        # A job that was turned down may have another spot now: each pass reads all jobs.
        self.moved += 1
        late = [entry for entry in self._ends if entry[0] <= now_ns]
        if late:
            self._ends = [entry for entry in self._ends if entry[0] > now_ns]
            for _, number, size in late:
                insort(self._ends, (now_ns + self._more_ns(number, now_ns), number, size))
        return len(late)

    def _more_ns(self, number: JobId, now_ns: int) -> int:
        """Returns how much longer a job is expected to take that is late."""
        return self._overrun_ns

    def _check_own(self, job: Job, nodes: Intervals) -> None:
        """Raises CoschedError unless a restored job has nodes of this domain."""
        if common(self._nodes, nodes) != nodes:
            raise CoschedError(f"job {job.number}: has nodes that are not in this domain")

    # --- nodes ----------------------------------------------------------------------------

    def expect(self, most: int) -> None:
        self._most = most
        self.moved += 1

    def add(self, nodes: Intervals) -> None:
        new = without(nodes, self._nodes)
        self._nodes = union(self._nodes, new)
        self.withdraw(new)

    def remove(self, nodes: Intervals) -> None:
        self.withdraw(nodes)
        self._nodes = without(self._nodes, nodes)
        self.shrunk = True

    def withdraw(self, nodes: Intervals) -> None:
        self.board.withdraw(numbers(nodes))
        self.moved += 1

    def admit(self, nodes: Intervals) -> None:
        self._nodes = union(self._nodes, nodes)
        self.board.admit(numbers(nodes))
        self.moved += 1
