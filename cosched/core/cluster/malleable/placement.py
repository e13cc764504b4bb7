"""Which nodes the malleable jobs have.

A job that shrinks gives up its nodes of the highest numbers; one that starts or grows gets
the free ones of the lowest. Commands are followed in the order in which they came.
"""

from __future__ import annotations

from cosched.core.cluster.malleable.messages import Command, JobId, StartJob
from cosched.core.cluster.queue.nodes import FreeNodes, Intervals, count
from cosched.core.errors import CoschedError


class Placement:
    """The nodes of a machine and who has them."""

    def __init__(self, nodes: Intervals) -> None:
        self._free = FreeNodes(nodes)
        self._held: dict[JobId, Intervals] = {}

    def follow(self, command: Command) -> Intervals:
        """Carries a command out; returns the nodes that its job has from now on.

        Raises CoschedError if there are not so many free, or the job is not there.
        """
        if isinstance(command, StartJob):
            number = command.job.number
            if number in self._held:
                raise CoschedError(f"job {number} is started, but it has nodes already")
            self._held[number] = self._free.take(command.size)
            return self._held[number]
        number = command.number
        held = self.of(number)
        more = command.size - count(held)
        if more > 0:
            now_held = _merged(held, self._free.take(more))
        else:
            now_held, given = split(held, command.size)
            self._free.give(given)
        self._held[number] = now_held
        return now_held

    def of(self, number: JobId) -> Intervals:
        """The nodes of a job that has some."""
        if number not in self._held:
            raise CoschedError(f"job {number} has no nodes")
        return self._held[number]

    def end(self, number: JobId) -> None:
        """The job's nodes are free again."""
        self._free.give(self.of(number))
        del self._held[number]


def split(nodes: Intervals, keep: int) -> tuple[Intervals, Intervals]:
    """The first ``keep`` nodes of a set, and the rest."""
    kept: list[tuple[int, int]] = []
    rest: list[tuple[int, int]] = []
    for first, last in nodes:
        here = min(keep, last - first + 1)
        if here:
            kept.append((first, first + here - 1))
        if first + here <= last:
            rest.append((first + here, last))
        keep -= here
    return tuple(kept), tuple(rest)


def _merged(one: Intervals, other: Intervals) -> Intervals:
    """The union of two sets that have nothing in common."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted((*one, *other)):
        if merged and merged[-1][1] + 1 == first:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return tuple(merged)
