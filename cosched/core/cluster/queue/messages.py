"""What goes into a domain's queue machine and what comes out of it.

Events are in the past tense, commands are imperative; a driver (the live controller or
the simulator) supplies events and carries out commands, in order. A submission or an end
only changes what is known. Decisions are made at a tick: a driver delivers all that
happened at one moment and then ticks, lest two jobs that end together be seen as one
ending before the other. Times are nanoseconds; ``now_ns`` never goes backwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from cosched.core.cluster.queue.nodes import Intervals

JobId = int  #: a job's number in its domain


@dataclass(frozen=True, slots=True)
class Job:
    """A request for nodes as it stands in the queue.

    size: nodes. walltime_ns: how long its user says it will run.
    """

    number: JobId
    size: int
    walltime_ns: int
    submit_ns: int


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job entered the queue."""

    now_ns: int
    job: Job


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A running job's processes are gone; its nodes are free again."""

    now_ns: int
    number: JobId


@dataclass(frozen=True, slots=True)
class Ticked:
    """All that happened until now has been told: decide."""

    now_ns: int


@dataclass(frozen=True, slots=True)
class StartJob:
    """Start the job on these nodes, now."""

    job: Job
    nodes: Intervals


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Tick at this time even if nothing happens before; replaces an earlier wish.

    None: there is nothing to wake up for.
    """

    at_ns: int | None


Event = JobSubmitted | JobEnded | Ticked
Command = StartJob | WakeAt
