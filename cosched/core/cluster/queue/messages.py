"""Defines the events and commands of a domain's queue.

Events are in the past tense, commands are imperative. A driver supplies events and carries
out commands, in order. Submissions and ends change only the state. Decisions are made at a
tick: a driver delivers all events of one moment and then ticks. So two jobs that end
together are seen together. Times are nanoseconds; ``now_ns`` never goes backwards.
"""

from __future__ import annotations

from msgspec import Struct

from cosched.core.cluster.queue.nodes import Intervals

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


class JobSubmitted(Struct, frozen=True):
    """A job entered the queue."""

    now_ns: int
    job: Job


class JobEnded(Struct, frozen=True):
    """A running job's processes are gone; its nodes are free again."""

    now_ns: int
    number: JobId


class ReservedJobBegan(Struct, frozen=True):
    """A job that had reserved nodes begins on them; its walltime counts from now."""

    now_ns: int
    number: JobId


class ReservedJobReleased(Struct, frozen=True):
    """A job that had reserved nodes does not need them; it waits in the queue again."""

    now_ns: int
    number: JobId


class Ticked(Struct, frozen=True):
    """All events until now are delivered: decide."""

    now_ns: int


class StartJob(Struct, frozen=True):
    """Start the job on these nodes, now."""

    job: Job
    nodes: Intervals


class ReserveJob(Struct, frozen=True):
    """It is a gated job's turn: these nodes are reserved for it."""

    job: Job
    nodes: Intervals


class WakeAt(Struct, frozen=True):
    """Tick at this time at the latest; replaces an earlier WakeAt. None: no wake-up."""

    at_ns: int | None


Event = JobSubmitted | JobEnded | ReservedJobBegan | ReservedJobReleased | Ticked
Command = StartJob | ReserveJob | WakeAt
