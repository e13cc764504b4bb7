"""Keeps the job on each half of each node. Plans use copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cosched.core.cluster.queue.halves.sharing_job import Half, SharingJob
from cosched.core.cluster.queue.job import JobId

#: Stands for the owner of a half without a job on a node that is out of service.
_NOBODY = SharingJob(-1, 0, 0, 0, application="", limits=frozenset())


@dataclass(frozen=True, slots=True)
class Placed:
    """Halves for a job, and halves that stay empty while it runs."""

    halves: tuple[Half, ...]  #: for the job
    closed: tuple[Half, ...] = ()  #: stay empty while it runs


class Board:
    """The halves of the nodes 0 to ``nodes`` - 1, which are in service at first.

    free: halves in service without a job. in_service: how many nodes are.
    """

    __slots__ = ("_at", "_out", "_owner", "_queued", "free", "in_service")

    def __init__(self, nodes: int) -> None:
        self.in_service = nodes
        self.free = 2 * nodes
        self._owner: list[SharingJob | None] = [None] * (2 * nodes)
        self._at: dict[JobId, Placed] = {}
        self._out: frozenset[int] = frozenset()  # nodes out of service
        # Restored jobs on halves of other jobs. They own these once the others have ended.
        self._queued: dict[Half, tuple[SharingJob, ...]] = {}

    def copy(self) -> Board:
        """Returns a copy of this board."""
        other = Board(0)
        other.in_service, other.free = self.in_service, self.free
        other._owner, other._at = self._owner.copy(), self._at.copy()
        other._out, other._queued = self._out, self._queued.copy()
        return other

    # --- for placements -------------------------------------------------------------------

    def neighbour(self, half: Half) -> SharingJob | None:
        """Returns the job on the other half of the node."""
        other = self._owner[half ^ 1]
        return None if other is _NOBODY else other

    def empty_nodes(self) -> Iterator[int]:
        """Yields the nodes with two free halves, in order."""
        owner = self._owner
        for top in range(0, len(owner), 2):
            if owner[top] is None and owner[top + 1] is None:
                yield top // 2

    def open_halves(self) -> Iterator[tuple[Half, SharingJob | None]]:
        """Yields a free half of each node, in order, and the job on its other half."""
        owner = self._owner
        for top in range(0, len(owner), 2):
            if owner[top] is None:
                yield top, owner[top + 1]
            elif owner[top + 1] is None:
                yield top + 1, owner[top]

    def free_halves(self, first: Half, step: int = 2) -> list[Half]:
        """Returns the free halves from one on, with this distance between them."""
        owner = self._owner
        return [half for half in range(first, len(owner), step) if owner[half] is None]

    # --- jobs -----------------------------------------------------------------------------

    def has(self, number: JobId) -> bool:
        """Returns whether a job has halves."""
        return number in self._at

    def spot(self, number: JobId) -> Placed:
        """Returns the halves of a job."""
        return self._at[number]

    def place(self, job: SharingJob, spot: Placed) -> None:
        """Gives the job these free halves."""
        for half in (*spot.halves, *spot.closed):
            if self._owner[half] is not None:
                raise AssertionError(f"half {half} is not free for job {job.number}")
            self._owner[half] = job
        self._at[job.number] = spot
        self.free -= len(spot.halves) + len(spot.closed)

    def adopt(self, job: SharingJob, spot: Placed) -> None:
        """Gives halves to a job that runs on them, also out of service. It waits for those
        that other jobs own; no job starts there meanwhile."""
        for half in spot.halves:
            owner = self._owner[half]
            if owner is None or owner is _NOBODY:
                self.free -= owner is None
                self._owner[half] = job
            else:
                self._queued[half] = (*self._queued.get(half, ()), job)
        self._at[job.number] = spot

    def remove(self, number: JobId) -> None:
        """Removes a job and frees its halves."""
        spot = self._at.pop(number)
        for half in (*spot.halves, *spot.closed):
            queued = self._queued.pop(half, None)
            if queued is not None:
                self._leave_queue(half, number, queued)
            elif half >> 1 in self._out:
                self._owner[half] = _NOBODY
            else:
                self._owner[half] = None
                self.free += 1

    def _leave_queue(
        self, half: Half, number: JobId, queued: tuple[SharingJob, ...]
    ) -> None:
        owner = self._owner[half]
        assert owner is not None
        left = [job for job in (owner, *queued) if job.number != number]
        self._owner[half] = left[0]
        if left[1:]:
            self._queued[half] = tuple(left[1:])

    # --- nodes ----------------------------------------------------------------------------

    def withdraw(self, nodes: Iterable[int]) -> None:
        """Removes nodes from service, also such as were never in it."""
        for node in nodes:
            if 2 * node >= len(self._owner):
                missing = range(len(self._owner) // 2, node + 1)
                self._out |= frozenset(missing)
                self._owner += [_NOBODY] * (2 * len(missing))
            elif node not in self._out:
                self._out |= {node}
                self.in_service -= 1
                for half in (2 * node, 2 * node + 1):
                    if self._owner[half] is None:
                        self._owner[half] = _NOBODY
                        self.free -= 1

    def admit(self, nodes: Iterable[int]) -> None:
        """Puts nodes into service."""
        nodes = list(nodes)
        self.withdraw(node for node in nodes if 2 * node >= len(self._owner))
        for node in nodes:
            if node not in self._out:
                continue
            self._out -= {node}
            self.in_service += 1
            for half in (2 * node, 2 * node + 1):
                if self._owner[half] is _NOBODY:
                    self._owner[half] = None
                    self.free += 1
