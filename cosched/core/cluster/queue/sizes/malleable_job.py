"""Defines a job whose number of nodes can change."""

from __future__ import annotations

from msgspec.structs import replace

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.sizes.execution import (
    FREE,
    AdaptationCost,
    Execution,
    linear,
)


class MalleableJob(Job, frozen=True, kw_only=True):
    """A request for between ``minimum`` nodes and its size, which is its ideal.

    walltime_ns: its run time with its ideal, from its user or its history. execution and
    cost: the expected ones, until its changes are measured. preferred: it grows beyond this
    size only while no job waits; 0: its ideal.
    """

    minimum: int
    preferred: int = 0
    execution: Execution = linear
    cost: AdaptationCost = FREE

    def within(self, minimum: int, ideal: int, preferred: int) -> MalleableJob:
        """Returns the same work with other sizes. Its run time with the new ideal follows
        from its model."""
        stretch = self.execution(ideal, self.size) if ideal > 0 else 1.0
        walltime_ns = max(1, round(self.walltime_ns * stretch))
        return replace(
            self,
            minimum=minimum,
            size=ideal,
            preferred=preferred,
            walltime_ns=walltime_ns,
        )


def preferred_nodes(job: Job) -> int:
    """Returns the most nodes that a job gets while others wait."""
    if not isinstance(job, MalleableJob) or not job.preferred:
        return job.size
    return max(job.minimum, min(job.preferred, job.size))


def least_nodes(job: Job) -> int:
    """Returns the least nodes that a job runs on; a rigid job needs its size."""
    return job.minimum if isinstance(job, MalleableJob) else job.size
