"""Represents sets of nodes as intervals of their numbers.

A set is a tuple of (first, last) pairs, both inclusive, ascending, with a gap between any
two. A machine of 160,000 nodes with fifty jobs needs some hundred pairs. The nodes of a job
fit in a line: ``0-511,2048-2559``.
"""

from __future__ import annotations

from bisect import bisect_left

from cosched.core.errors import CoschedError

Intervals = tuple[tuple[int, int], ...]


def count(nodes: Intervals) -> int:
    """Returns the number of nodes in the set."""
    return sum(last - first + 1 for first, last in nodes)


def format_nodes(nodes: Intervals) -> str:
    """Returns the set as text: ``0-3,8`` for the nodes 0, 1, 2, 3 and 8."""
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in nodes
    )


class FreeNodes:
    """The free nodes of a machine."""

    __slots__ = ("_pairs", "total")

    def __init__(self, nodes: Intervals) -> None:
        self._pairs = list(nodes)
        self.total = count(nodes)

    @property
    def intervals(self) -> Intervals:
        """Returns the free nodes as a set."""
        return tuple(self._pairs)

    def take(self, wanted: int) -> Intervals:
        """Removes the ``wanted`` lowest nodes and returns them.

        Raises CoschedError if ``wanted`` is 0 or more than the free nodes.
        """
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

    def give(self, nodes: Intervals) -> None:
        """Adds nodes and merges them with their neighbours.

        Raises CoschedError if one of them is free already.
        """
        pairs = self._pairs
        for first, last in nodes:
            here = bisect_left(pairs, (first,))
            before = pairs[here - 1] if here else None
            after = pairs[here] if here < len(pairs) else None
            if (before and before[1] >= first) or (after and after[0] <= last):
                raise CoschedError(
                    f"nodes {format_nodes(nodes)} are given back, but some are free already"
                )
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
