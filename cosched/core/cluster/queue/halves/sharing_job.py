"""Defines a job of a domain whose nodes have halves."""

from __future__ import annotations

import math

from cosched.core.cluster.queue.job import Job
from cosched.core.symbiosis.resources import Limits

Half = int  #: 2 x node for its top half, one more for its bottom half

TOP, BOTTOM = 0, 1

#: Parts such as a tenth are not exact.
_ROUNDING = 1e-9


class SharingJob(Job, frozen=True, kw_only=True):
    """A request for halves of different nodes, or for whole nodes.

    size: the fewest halves with which it can start. walltime_ns: the requested run time on
    whole nodes of its own.
    """

    application: str  #: its kind, for observed speeds
    limits: Limits  #: its user's label; empty: none
    shares: bool = True  #: it may run on halves; otherwise it has whole nodes
    halves: int = 0  #: on different nodes; 0: as many as ``size``
    nodes: int = 0  #: whole nodes in place of halves; 0: the nodes of ``size`` halves

    @property
    def spread(self) -> int:
        """The halves of different nodes that it needs."""
        return self.halves or self.size

    @property
    def whole(self) -> int:
        """The whole nodes that it needs."""
        return self.nodes or (self.size + 1) // 2

    def is_up_to(self, part: float, nodes: int) -> bool:
        """Returns whether it is no larger than a part of a number of nodes. A job of one
        half always is: it waits for no more nodes than without halves."""
        return self.size <= max(1, math.floor(2 * nodes * part + _ROUNDING))


def whole_nodes_job(job: Job) -> SharingJob:
    """Returns a job of whole nodes as a domain with halves takes it."""
    return SharingJob(
        job.number,
        2 * job.size,
        job.walltime_ns,
        job.submit_ns,
        job.exclusive,
        job.waits_for_mates,
        job.limited,
        job.known,
        application="",
        limits=frozenset(),
        shares=False,
    )
