"""What goes into the machine and what comes out; ``JobEnded`` and ``Ticked`` are those of
``cosched.core.cluster.queue``. Times are nanoseconds; ``now_ns`` never goes backwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cosched.core.cluster.queue.messages import JobEnded, JobId, Ticked
from cosched.core.cluster.symbiosis.resources import Limits

Half = int  #: 2 x node for its top half, one more for its bottom half

TOP, BOTTOM = 0, 1


@dataclass(frozen=True, slots=True)
class SharingJob:
    """A request for node halves.

    size: halves. walltime_ns: how long its user says it will run on nodes of its own.
    application: what of its kind is known by. limits: its user's label.
    """

    number: JobId
    size: int
    walltime_ns: int
    submit_ns: int
    application: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job entered the queue."""

    now_ns: int
    job: SharingJob


@dataclass(frozen=True, slots=True)
class SpeedObserved:
    """A job of one application had the same neighbour everywhere for a while, and so much
    speedup. ``background`` None: nobody."""

    now_ns: int
    primary: str
    background: str | None
    speedup: float


@dataclass(frozen=True, slots=True)
class StartSharing:
    """Start the job on these halves, now. ``closed``: halves of its nodes that nobody gets
    while it runs."""

    job: SharingJob
    halves: Sequence[Half]
    closed: Sequence[Half]


Event = JobSubmitted | JobEnded | SpeedObserved | Ticked
Command = StartSharing
