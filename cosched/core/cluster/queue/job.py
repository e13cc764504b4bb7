"""Defines a job as it stands in the queue of a domain."""

from __future__ import annotations

from msgspec import Struct

JobId = int  #: a job's number in its domain


class Job(Struct, frozen=True):
    """A request for nodes as it stands in the queue."""

    number: JobId  #: names it
    size: int  #: in nodes
    #: The run time that its user requested; without one that of earlier runs, or a guess;
    #: ns.
    walltime_ns: int
    submit_ns: int  #: its place among equal jobs, ns
    exclusive: bool = False  #: its nodes have no other job
    #: At its turn it gets nodes, but begins only together with its mates in other domains.
    waits_for_mates: bool = False
    limited: bool = True  #: it is ended when its walltime and the grace are over
    known: bool = True  #: its walltime is more than a guess

    def __deepcopy__(self, _memo: object) -> Job:
        """Returns the job itself, which never changes: a forecast copies a whole queue."""
        return self
