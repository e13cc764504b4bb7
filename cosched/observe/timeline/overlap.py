"""Intervals of time that several nodes have in common. Whole nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Interval = tuple[int, int]


def clipped(
    intervals: Iterable[Sequence[int | None]], since_ns: int, until_ns: int
) -> list[Interval]:
    """As a status has them, within bounds: open ends end there, empty ones are left out."""
    found = []
    for start, end in intervals:
        assert start is not None
        low = max(start, since_ns)
        high = until_ns if end is None else min(end, until_ns)
        if low < high:
            found.append((low, high))
    return found


def time_by_depth(sets: Iterable[Iterable[Interval]]) -> dict[int, int]:
    """For each number of sets that hold at once, for how long exactly so many did.

    The intervals of one set do not overlap each other.
    """
    edges = sorted(
        (at_ns, change)
        for intervals in sets
        for start, end in intervals
        for at_ns, change in ((start, 1), (end, -1))
    )
    lengths: dict[int, int] = {}
    depth = before_ns = 0
    for at_ns, change in edges:
        if depth and at_ns > before_ns:
            lengths[depth] = lengths.get(depth, 0) + at_ns - before_ns
        depth += change
        before_ns = at_ns
    return lengths


@dataclass(frozen=True, slots=True)
class Shared:
    """How long all sets held at once, and how long any did."""

    all_ns: int
    any_ns: int

    @property
    def fraction(self) -> float | None:
        """The first of the second; None if none ever held."""
        return self.all_ns / self.any_ns if self.any_ns else None


def shared(sets: Sequence[Sequence[Interval]]) -> Shared:
    """What the sets have in common."""
    lengths = time_by_depth(sets)
    return Shared(lengths.get(len(sets), 0), sum(lengths.values()))
