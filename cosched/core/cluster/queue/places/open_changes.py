"""Keeps the ordered changes of the sizes of jobs until they are over."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.nodes import Intervals, common, count, union
from cosched.core.cluster.queue.sizes.causes import Cause
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun
from cosched.core.errors import CoschedError


class Change(Struct):
    """An open change of a job's nodes."""

    before: Intervals  #: the job's nodes at the time of the order
    after: Intervals  #: the ordered nodes
    leaving: Intervals  #: nodes of ``before`` that the job is to give
    arriving: Intervals  #: nodes that the job is to get
    #: The plan does without it from then on, ns; None: it may take for ever.
    by_ns: int | None = None
    given_up: bool = False  #: the plan does without it
    lost: Intervals = ()  #: arriving nodes that do not answer any more
    causes: tuple[Cause, ...] = ()  #: why it was ordered


class OpenChanges(dict[JobId, Change]):
    """The open change of each job that has one, in the order of their begin. running: the
    jobs that have nodes."""

    def __init__(self, running: Mapping[JobId, ResizableRun]) -> None:
        super().__init__()
        self._running = running

    def of(self, number: JobId) -> Change:
        """Returns the open change of a job. Raises CoschedError if it has none."""
        try:
            return self[number]
        except KeyError:
            raise CoschedError(f"job {number}: no change of its size is open") from None

    def coming(self, service: Intervals) -> int:
        """Returns the number of nodes in service that changes will free."""
        return sum(
            count(common(change.leaving, service))
            for change in self.values()
            if change.leaving and not change.given_up
        )

    def due(self) -> dict[JobId, int]:
        """Returns when changes on which the plan still counts are late, ns."""
        return {
            number: change.by_ns
            for number, change in self.items()
            if change.by_ns is not None
            and not (change.given_up or self._running[number].ending)
        }

    def lose_arriving(self, nodes: Intervals) -> list[JobId]:
        """Notes lost nodes; returns the jobs to which some of them were to come."""
        hit = []
        for number, change in self.items():
            lost = common(change.arriving, nodes)
            if lost:
                change.lost = union(change.lost, lost)
                hit.append(number)
        return hit
