"""Models the run time of a job with fewer nodes than its ideal (section 4.3).

An execution model is a function of (size, ideal): the run time with ``size`` nodes as a
multiple of the run time with ``ideal`` nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

Execution: TypeAlias = Callable[[int, int], float]


def linear(size: int, ideal: int) -> float:
    """No communication: half the nodes, twice the time."""
    return ideal / size


def parabolic(size: int, ideal: int) -> float:
    """a/P + bP with its minimum at the ideal: the last nodes bring little."""
    return (ideal / size + size / ideal) / 2


EXECUTIONS = MappingProxyType({"linear": linear, "parabolic": parabolic})


@dataclass(frozen=True, slots=True)
class AdaptationCost:
    """The time that a job stands still while it moves its data to other nodes."""

    base_ns: int = 0  #: for every change
    moved_ns: int = 0  #: for all data of the job; a job of P nodes moves 1/P of it
    added_ns: int = 0  #: for the new processes of a job that grows

    def ns(self, size: int, new_size: int) -> int:
        """Returns the cost of one change, for any number of nodes."""
        grown_ns = self.added_ns if new_size > size else 0
        return self.base_ns + self.moved_ns // size + grown_ns

    def measured(self, size: int, new_size: int, cost_ns: int) -> AdaptationCost:
        """Returns the model that gives a measured change its cost. A job that shrinks
        shows the cost of every change, one that grows that of its new processes."""
        more_ns = cost_ns - self.ns(size, new_size)
        if not more_ns or new_size == size:
            return self
        if new_size > size:
            return replace(self, added_ns=self.added_ns + more_ns)
        return replace(self, base_ns=self.base_ns + more_ns)


FREE = AdaptationCost()
