"""Defines a job whose number of nodes can change."""

from __future__ import annotations

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.sizes.execution import (
    FREE,
    AdaptationCost,
    Execution,
    linear,
)


class MalleableJob(Job, frozen=True, kw_only=True):
    """A request for between ``minimum`` nodes and its size, which is its ideal.

    walltime_ns: its run time with its ideal, from its user or its history.
    """

    minimum: int
    execution: Execution = linear
    cost: AdaptationCost = FREE
