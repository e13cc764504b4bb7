"""Defines a job as it stands in the queue of a domain."""

from __future__ import annotations

from msgspec import Struct

JobId = int  #: a job's number in its domain


class Job(Struct, frozen=True):
    """A request for nodes as it stands in the queue.

    size: nodes. walltime_ns: the run time that its user requested. exclusive: its nodes
    have no other job. gated: at its turn it gets nodes, but begins only when it is let go.
    """

    number: JobId
    size: int
    walltime_ns: int
    submit_ns: int
    exclusive: bool = False
    gated: bool = False
