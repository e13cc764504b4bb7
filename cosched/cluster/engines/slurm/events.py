"""Defines what Slurm reports about the jobs with mates of a coupled domain.

Slurm queues jobs by its own rules. ``steering`` stops each job with mates when it has its
nodes: the job is *ready*. It starts only after the order ``go``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cosched.cluster.coupling.mates import Mates


@dataclass(frozen=True, slots=True)
class PairedJob:
    """A job with mates. uid, user: its user, as Slurm reports it. nodes: how many
    it wants. limit_ns: its time limit; None: unlimited. submitted_ns: by the wall clock.

    may_yield: whether it can give its nodes back and wait again. A job that cannot only
    holds or starts.
    """

    number: int
    uid: int
    user: str
    mates: Mates
    nodes: int
    limit_ns: int | None
    submitted_ns: int
    may_yield: bool = True


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job with mates waits in the queue. Comes again after the job was put back into the
    queue from outside. Comes first of all for each job that exists."""

    job: PairedJob


@dataclass(frozen=True, slots=True)
class Refused:
    """A job was refused; it never starts. reason: one line, also shown to its user."""

    number: int
    uid: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The job has its nodes and waits for ``go`` or ``give_back``. nodes: their names, as
    Slurm writes them. size: how many; 0: as many as it wanted."""

    number: int
    nodes: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class NotReady:
    """A ready job has lost its nodes, without an order, and waits in the queue."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class GaveBack:
    """A job has carried out ``give_back``: it has no nodes, and waits in the queue."""

    number: int


@dataclass(frozen=True, slots=True)
class Started:
    """The job runs. at_ns: since when, by the wall clock."""

    number: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The job got ``go`` but could not start; it waits in the queue again."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is over after it ran. outcome: Slurm's word for it."""

    number: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job is over, or has no mates any more, before it ran."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of ``try_now``. ready: the job has its nodes now, and waits for ``go``.
    expected_s: otherwise, when it should have them if nothing else waits; None: unknown.
    """

    number: int
    ready: bool
    reason: str = ""
    expected_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """Slurm answers (again), or does not: then its jobs' states are unknown."""

    up: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The number of nodes that Slurm has in service."""

    nodes: int


Event = (
    Submitted
    | Refused
    | Ready
    | NotReady
    | GaveBack
    | Started
    | StartFailed
    | Ended
    | Cancelled
    | Tried
    | Reached
    | Capacity
)
#: Takes an event; called in the event loop, in the order of the events of each job.
Report = Callable[[Event], None]
