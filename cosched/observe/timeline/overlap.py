"""Finds the time that the intervals of several nodes have in common, in nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Interval = tuple[int, int]


def clipped(
    intervals: Iterable[Sequence[int | None]], since_ns: int, until_ns: int
) -> list[Interval]:
    """Cuts a status's intervals to the given bounds; an open one ends at ``until_ns``."""
    found = []
    for start, end in intervals:
        assert start is not None
        low = max(start, since_ns)
        high = until_ns if end is None else min(end, until_ns)
        if low < high:
            found.append((low, high))
    return found


def time_by_depth(sets: Iterable[Iterable[Interval]]) -> dict[int, int]:
    """Returns for each number of sets how long exactly so many sets overlapped.

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
    """The overlap of several sets of intervals."""

    all_ns: int  #: how long all sets overlapped, in ns
    any_ns: int  #: how long at least one set had an interval, in ns

    @property
    def fraction(self) -> float | None:
        """The first as a fraction of the second; None if the sets are empty."""
        return self.all_ns / self.any_ns if self.any_ns else None


def shared(sets: Sequence[Sequence[Interval]]) -> Shared:
    """Returns how long the sets overlap."""
    lengths = time_by_depth(sets)
    return Shared(lengths.get(len(sets), 0), sum(lengths.values()))
