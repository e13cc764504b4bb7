"""Keeps the job on each half of each node. Plans use copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cosched.core.cluster.queue.halves.sharing_job import Half, SharingJob
from cosched.core.cluster.queue.job import JobId


@dataclass(frozen=True, slots=True)
class Placed:
    """Halves for a job, and halves that stay empty while it runs."""

    halves: tuple[Half, ...]  #: for the job
    closed: tuple[Half, ...] = ()  #: stay empty while it runs


class Board:
    """The halves of ``nodes`` nodes."""

    __slots__ = ("_at", "_owner", "free", "nodes")

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.free = 2 * nodes  #: halves
        self._owner: list[SharingJob | None] = [None] * (2 * nodes)
        self._at: dict[JobId, Placed] = {}

    def copy(self) -> Board:
        """Returns a copy of this board."""
        other = Board(self.nodes)
        other.free = self.free
        other._owner = self._owner.copy()
        other._at = self._at.copy()
        return other

    def owner(self, half: Half) -> SharingJob | None:
        """Returns the job that uses or closes a half."""
        return self._owner[half]

    def neighbour(self, half: Half) -> SharingJob | None:
        """Returns the job on the other half of the node."""
        return self._owner[half ^ 1]

    def empty_nodes(self) -> Iterator[int]:
        """Yields the nodes with two free halves, in order."""
        owner = self._owner
        for node in range(self.nodes):
            if owner[2 * node] is None and owner[2 * node + 1] is None:
                yield node

    def open_halves(self) -> Iterator[tuple[Half, SharingJob | None]]:
        """Yields a free half of each node, in order, and the job on its other half."""
        owner = self._owner
        for top in range(0, len(owner), 2):
            if owner[top] is None:
                yield top, owner[top + 1]
            elif owner[top + 1] is None:
                yield top + 1, owner[top]

    def place(self, job: SharingJob, spot: Placed) -> None:
        """Gives the job these halves."""
        for half in (*spot.halves, *spot.closed):
            if self._owner[half] is not None:
                raise AssertionError(f"half {half} is not free for job {job.number}")
            self._owner[half] = job
        self._at[job.number] = spot
        self.free -= len(spot.halves) + len(spot.closed)

    def remove(self, number: JobId) -> None:
        """Removes a job and frees its halves."""
        spot = self._at.pop(number)
        for half in (*spot.halves, *spot.closed):
            self._owner[half] = None
        self.free += len(spot.halves) + len(spot.closed)
