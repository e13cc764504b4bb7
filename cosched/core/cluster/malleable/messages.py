"""Defines the events and commands of the malleable scheduler.

As in the paper, a decision follows each arrival and each end. Times are nanoseconds;
``now_ns`` never goes backwards. If events have the same time, ends come first.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from cosched.core.cluster.malleable.execution import FREE, AdaptationCost, Execution, linear

JobId = int  #: a job's number in its domain


class MalleableJob(Struct, frozen=True):
    """A request for between ``minimum`` and ``ideal`` nodes.

    run_ns: its run time with its ideal, from its user or its history.
    """

    number: JobId
    minimum: int
    ideal: int
    run_ns: int
    submit_ns: int
    execution: Execution = linear
    cost: AdaptationCost = FREE


class JobSubmitted(Struct, frozen=True):
    """A job entered the queue."""

    now_ns: int
    job: MalleableJob


class JobEnded(Struct, frozen=True):
    """A running job's processes are gone; its nodes are free again."""

    now_ns: int
    number: JobId


# Commands are tuples: a simulation of a year makes millions of them.
class StartJob(NamedTuple):
    """Start the job with ``size`` nodes, now. end_ns: its expected end."""

    job: MalleableJob
    size: int
    end_ns: int


class ResizeJob(NamedTuple):
    """Resize the running job to ``size`` nodes. end_ns: its new expected end."""

    number: JobId
    size: int
    end_ns: int


Event = JobSubmitted | JobEnded
Command = StartJob | ResizeJob
