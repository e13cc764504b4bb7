"""Keeps the nodes of each job by their coming, and chooses those that leave.

A job keeps its first node until it ends. Any others may leave: first those that its domain
does not want, then whole growths, the last one first, since tasks that came together leave
best together. Only the rest comes from a part of a growth.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.nodes import Intervals, common, count, union, without


class Growths:
    """The nodes of each job: those of its start, then those of each growth."""

    def __init__(self) -> None:
        self._of: dict[JobId, list[Intervals]] = {}

    def begin(self, number: JobId, nodes: Intervals) -> None:
        """Notes the nodes with which a job starts."""
        self._of[number] = [nodes]

    def change(self, number: JobId, freed: Intervals, arrived: Intervals) -> None:
        """Notes the nodes that have left a job, and those that have come to it."""
        growths = self._of[number]
        if freed:
            left = [without(growth, freed) for growth in growths]
            growths[:] = [growth for growth in left if growth]
        if arrived:
            growths.append(arrived)

    def restore(
        self, number: JobId, growths: Sequence[Intervals], nodes: Intervals
    ) -> None:
        """Notes the growths of a restored job, without nodes that it does not have. nodes:
        all that it has."""
        self._of[number] = by_coming(growths, nodes)

    def forget(self, number: JobId) -> None:
        """Forgets a job that has ended."""
        del self._of[number]

    def first(self, number: JobId) -> Intervals:
        """Returns the node of a job that never leaves it."""
        return first_node(self._of[number])

    def leaving(self, number: JobId, amount: int, unwanted: Intervals) -> Intervals:
        """Returns ``amount`` nodes of a job that are to leave it. unwanted: those that
        leave first."""
        chosen = unwanted
        if chosen:
            chosen = last_nodes(chosen, amount)
            amount -= count(chosen)
        growths = self._of[number]
        for growth in reversed(growths[1:]):
            whole = without(growth, chosen)
            size = count(whole)
            if size <= amount:
                chosen = union(chosen, whole)
                amount -= size
        if amount:
            kept = union(chosen, self.first(number))
            for growth in reversed(growths):
                part = last_nodes(without(growth, kept), amount)
                chosen = union(chosen, part)
                amount -= count(part)
                if not amount:
                    break
        return chosen


def by_coming(growths: Sequence[Intervals], nodes: Intervals) -> list[Intervals]:
    """Returns growths without nodes that a job does not have, and then the rest of its
    nodes. nodes: all that it has."""
    kept = [common(growth, nodes) for growth in growths]
    rest = nodes
    for growth in kept:
        rest = without(rest, growth)
    return [growth for growth in (*kept, rest) if growth]


def first_node(growths: Sequence[Intervals]) -> Intervals:
    """Returns the node that never leaves a job with these growths."""
    first = growths[0][0][0]
    return ((first, first),)


def last_nodes(nodes: Intervals, size: int) -> Intervals:
    """Returns the ``size`` highest nodes of a set, or all if it has fewer."""
    kept: list[tuple[int, int]] = []
    for first, last in reversed(nodes):
        if not size:
            break
        here = min(size, last - first + 1)
        kept.append((last - here + 1, last))
        size -= here
    return tuple(reversed(kept))
