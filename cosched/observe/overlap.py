"""Intervals of time that several nodes have in common. Whole nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def agreement(sets: Sequence[Sequence[Interval]]) -> float | None:
    """Of the time in which any holds, the fraction in which all do; None if none ever."""
    lengths = time_by_depth(sets)
    total = sum(lengths.values())
    return lengths.get(len(sets), 0) / total if total else None
