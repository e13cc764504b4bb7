"""Defines the events and commands of the symbiotic scheduler.

``JobEnded`` and ``Ticked`` come from ``cosched.core.cluster.queue``. Times are nanoseconds;
``now_ns`` never goes backwards."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.messages import JobEnded, Ticked
from cosched.core.cluster.symbiosis.resources import Limits

Half = int  #: 2 x node for its top half, one more for its bottom half

TOP, BOTTOM = 0, 1


class SharingJob(Job, frozen=True, kw_only=True):
    """A request for node halves.

    size: halves. walltime_ns: the requested run time on whole nodes of its own.
    application: its kind. limits: its user's label.
    """

    application: str
    limits: Limits


class JobSubmitted(Struct, frozen=True):
    """A job entered the queue."""

    now_ns: int
    job: SharingJob


class SpeedObserved(Struct, frozen=True):
    """A job had the same neighbour on all its nodes for a while, with this speedup.

    ``background`` None: no neighbour."""

    now_ns: int
    primary: str
    background: str | None
    speedup: float


class StartSharing(Struct, frozen=True):
    """Start the job on these halves, now. ``closed``: halves that stay empty meanwhile."""

    job: SharingJob
    halves: Sequence[Half]
    closed: Sequence[Half]


Event = JobSubmitted | JobEnded | SpeedObserved | Ticked
Command = StartSharing
