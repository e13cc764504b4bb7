"""Represents sets of nodes as intervals of their numbers.

A set is a tuple of (first, last) pairs, both inclusive, ascending, with a gap between any
two. A machine of 160,000 nodes with fifty jobs needs some hundred pairs. The nodes of a job
fit in a line: ``0-511,2048-2559``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice

from cosched.core.errors import CoschedError

Intervals = tuple[tuple[int, int], ...]


def count(nodes: Intervals) -> int:
    """Returns the number of nodes in the set."""
    found = 0
    for first, last in nodes:
        found += last - first + 1
    return found


def from_numbers(numbers: Iterable[int]) -> Intervals:
    """Returns the set of these nodes; their order does not matter."""
    pairs: list[tuple[int, int]] = []
    first = last = None
    for number in sorted(numbers):
        if first is None or last is None:
            first = last = number
        elif number > last + 1:
            pairs.append((first, last))
            first = last = number
        else:
            last = number
    if first is not None and last is not None:
        pairs.append((first, last))
    return tuple(pairs)


def numbers(nodes: Intervals) -> list[int]:
    """Returns the nodes of the set, ascending."""
    return [number for first, last in nodes for number in range(first, last + 1)]


def in_order(given: Iterable[int]) -> Intervals:
    """Returns nodes in this order as intervals. A node may come twice, so this is no set;
    ``numbers`` makes the same list of it."""
    pairs: list[tuple[int, int]] = []
    for number in given:
        if pairs and number == pairs[-1][1] + 1:
            pairs[-1] = (pairs[-1][0], number)
        else:
            pairs.append((number, number))
    return tuple(pairs)


def format_nodes(nodes: Intervals) -> str:
    """Returns the set as text: ``0-3,8`` for the nodes 0, 1, 2, 3 and 8."""
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in nodes
    )


def common(one: Intervals, other: Intervals) -> Intervals:
    """Returns the nodes that are in both sets."""
    found: list[tuple[int, int]] = []
    here = 0
    for first, last in one:
        while here < len(other) and other[here][1] < first:
            here += 1
        for begin, end in islice(other, here, None):
            if begin > last:
                break
            found.append((max(first, begin), min(last, end)))
    return tuple(found)


def without(nodes: Intervals, gone: Intervals) -> Intervals:
    """Returns the nodes of the first set that are not in the second."""
    if not gone:
        return nodes
    left: list[tuple[int, int]] = []
    here = 0
    for first, last in nodes:
        while here < len(gone) and gone[here][1] < first:
            here += 1
        for begin, end in islice(gone, here, None):
            if begin > last:
                break
            if first < begin:
                left.append((first, begin - 1))
            first = end + 1  # noqa: PLW2901
        if first <= last:
            left.append((first, last))
    return tuple(left)


def union(one: Intervals, other: Intervals) -> Intervals:
    """Returns the nodes that are in either set."""
    if not one or not other:
        return one or other
    pairs = sorted(one + other)
    merged = pairs[:1]
    for first, last in pairs[1:]:
        begin, end = merged[-1]
        if first > end + 1:
            merged.append((first, last))
        elif last > end:
            merged[-1] = (begin, last)
    return tuple(merged)


class Pool(ABC):
    """The free nodes of a machine."""

    __slots__ = ()

    @property
    @abstractmethod
    def total(self) -> int:
        """Returns their number."""

    @property
    @abstractmethod
    def intervals(self) -> Intervals:
        """Returns the free nodes as a set."""

    @abstractmethod
    def copy(self) -> Pool:
        """Returns an independent copy."""

    @abstractmethod
    def width(self, wanted: int) -> int:
        """Returns how many nodes a job of this size gets."""

    @abstractmethod
    def fits(self, wanted: int) -> bool:
        """Returns whether a job of this size could have nodes now."""

    @abstractmethod
    def fits_beside(self, wanted: int, extra: int) -> bool:
        """Returns whether a job of this size could have nodes that the first waiting job
        does not need; that one leaves ``extra`` nodes."""

    def keep(self, wanted: int) -> None:  # noqa: B027  (all nodes may be alike)
        """Reserves the nodes that the first waiting job, of this size, would get now."""

    def keep_as(self, other: Pool) -> None:  # noqa: B027  (as above)
        """Keeps the same nodes as ``other`` for the first waiting job."""

    @abstractmethod
    def take(self, wanted: int) -> Intervals:
        """Removes nodes for a job of this size and returns them. Raises CoschedError if
        ``wanted`` is 0 or no such nodes are free."""

    @abstractmethod
    def take_exactly(self, nodes: Intervals) -> None:
        """Removes these nodes. Raises CoschedError if one of them is not free."""

    @abstractmethod
    def give(self, nodes: Intervals) -> None:
        """Adds nodes. Raises CoschedError if one of them is free already."""


def not_free(nodes: Intervals) -> CoschedError:
    """Returns the error of a pool that lacks some of these nodes."""
    return CoschedError(f"nodes {format_nodes(nodes)}: some are not free")


def free_already(nodes: Intervals) -> CoschedError:
    """Returns the error of a pool that has some of these nodes already."""
    return CoschedError(
        f"nodes {format_nodes(nodes)} are given back, but some are free already"
    )


class FreeNodes(Pool):
    """The free nodes of a machine whose nodes are all alike. A job gets the lowest ones."""

    __slots__ = ("_pairs", "total")

    total: int

    def __init__(self, nodes: Intervals) -> None:
        self._pairs = list(nodes)
        self.total = count(nodes)

    @property
    def intervals(self) -> Intervals:
        return tuple(self._pairs)

    def copy(self) -> FreeNodes:
        return FreeNodes(self.intervals)

    def width(self, wanted: int) -> int:
        return wanted

    def fits(self, wanted: int) -> bool:
        return wanted <= self.total

    def fits_beside(self, wanted: int, extra: int) -> bool:
        return wanted <= extra

    def take(self, wanted: int) -> Intervals:
        if not 1 <= wanted <= self.total:
            raise CoschedError(f"{wanted} nodes wanted, {self.total} free")
        self.total -= wanted
        pairs = self._pairs
        whole = 0
        first, last = pairs[0]
        while last - first + 1 < wanted:
            wanted -= last - first + 1
            whole += 1
            first, last = pairs[whole]
        end = first + wanted - 1
        taken = (*pairs[:whole], (first, end))
        if end == last:
            whole += 1
        else:
            pairs[whole] = (end + 1, last)
        del pairs[:whole]
        return taken

    def take_exactly(self, nodes: Intervals) -> None:
        if common(self.intervals, nodes) != nodes:
            raise not_free(nodes)
        self._pairs = list(without(self.intervals, nodes))
        self.total -= count(nodes)

    def give(self, nodes: Intervals) -> None:
        pairs = self._pairs
        for first, last in nodes:
            here = bisect_left(pairs, (first,))
            before = pairs[here - 1] if here else None
            after = pairs[here] if here < len(pairs) else None
            if (before and before[1] >= first) or (after and after[0] <= last):
                raise free_already(nodes)
            self.total += last - first + 1
            if after and after[0] == last + 1:
                last = after[1]  # noqa: PLW2901
                if before and before[1] == first - 1:
                    pairs[here - 1] = (before[0], last)
                    del pairs[here]
                else:
                    pairs[here] = (first, last)
            elif before and before[1] == first - 1:
                pairs[here - 1] = (before[0], last)
            else:
                pairs.insert(here, (first, last))
