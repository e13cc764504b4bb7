"""What goes into the machine of malleable jobs and what comes out of it.

As in the paper, a decision follows each arrival and each end. Times are nanoseconds;
``now_ns`` never goes backwards. What happens at one moment is told ends first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cosched.core.cluster.malleable.execution import FREE, AdaptationCost, Execution, linear

JobId = int  #: a job's number in its domain


@dataclass(frozen=True, slots=True)
class MalleableJob:
    """A request for between ``minimum`` and ``ideal`` nodes.

    run_ns: how long it takes with its ideal, as its user or its past says.
    """

    number: JobId
    minimum: int
    ideal: int
    run_ns: int
    submit_ns: int
    execution: Execution = linear
    cost: AdaptationCost = FREE


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job entered the queue."""

    now_ns: int
    job: MalleableJob


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A running job's processes are gone; its nodes are free again."""

    now_ns: int
    number: JobId


# Commands are tuples: a simulation of a year makes millions of them.
class StartJob(NamedTuple):
    """Start the job with so many nodes, now. end_ns: when it should end."""

    job: MalleableJob
    size: int
    end_ns: int


class ResizeJob(NamedTuple):
    """Have the running job go on with so many nodes. end_ns: when it should end now."""

    number: JobId
    size: int
    end_ns: int


Event = JobSubmitted | JobEnded
Command = StartJob | ResizeJob
