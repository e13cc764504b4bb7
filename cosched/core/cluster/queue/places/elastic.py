"""Keeps jobs whose number of nodes changes while they run, one job a node.

A job that shrinks gives up its last nodes; one that grows gets the first free ones.

Limits: nodes stay in service, and jobs here wait for no mates in other domains.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.nodes import Intervals, union, without
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.places.place import Place, Row, Spot
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.errors import CoschedError


class Elastic(Ledger):
    """The nodes of a domain with malleable jobs. A spot is a number of nodes, and the
    expected end of the job with them, in ns. A job that has nodes is resized."""

    @property
    def rows(self) -> Sequence[Row] | None:
        return None

    def check(self, job: Job) -> None:
        if not isinstance(job, MalleableJob) or job.waits_for_mates:
            raise CoschedError(
                f"job {job.number}: sizes change only for malleable jobs without mates"
            )
        if not 1 <= job.minimum <= job.size <= self.total:
            raise CoschedError(
                f"job {job.number} wants {job.minimum} to {job.size} nodes; want at least "
                f"1, the minimum first, and at most the machine's {self.total}"
            )

    def occupy(self, job: Job, spot: Spot, now_ns: int) -> Intervals:
        size, end_ns = spot
        held = self._held.get(job.number)
        if held is None:
            nodes = self._pool.take(size)
            self.free -= size
        else:
            before_ns, width, nodes = held
            del self._ends[bisect_left(self._ends, (before_ns, job.number))]
            self.free -= size - width
            if size < width:
                kept = first_nodes(nodes, size)
                self._pool.give(without(nodes, kept))
                nodes = kept
            else:
                nodes = union(nodes, self._pool.take(size - width))
        self._held[job.number] = (end_ns, size, nodes)
        insort(self._ends, (end_ns, job.number, size))
        return nodes

    adopt, withdraw, admit = Place.adopt, Place.withdraw, Place.admit


def first_nodes(nodes: Intervals, size: int) -> Intervals:
    """Returns the ``size`` lowest nodes of a set that has more."""
    kept: list[tuple[int, int]] = []
    for first, last in nodes:
        here = min(size, last - first + 1)
        kept.append((first, first + here - 1))
        size -= here
        if not size:
            break
    return tuple(kept)
