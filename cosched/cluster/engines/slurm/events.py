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
    """A job with mates."""

    number: int  #: Slurm's number of the job
    uid: int  #: its user
    user: str  #: the name of its user, as Slurm reports it
    mates: Mates  #: the mates that its comment names
    nodes: int  #: how many it wants
    limit_ns: int | None  #: its time limit; None: unlimited
    submitted_ns: int  #: by the wall clock
    #: Whether it can give its nodes back and wait again. A job that cannot only holds or
    #: starts.
    may_yield: bool = True


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job with mates waits in the queue. Comes again after the job was put back into the
    queue from outside. Comes first of all for each job that exists."""

    job: PairedJob  #: as squeue shows it


@dataclass(frozen=True, slots=True)
class Refused:
    """A job was refused; it never starts."""

    number: int  #: Slurm's number of the job
    uid: int  #: its user
    reason: str  #: one line, also shown to its user


@dataclass(frozen=True, slots=True)
class Ready:
    """The job has its nodes and waits for ``go`` or ``give_back``."""

    number: int  #: Slurm's number of the job
    nodes: str  #: their names, as Slurm writes them
    size: int = 0  #: how many; 0: as many as it wanted


@dataclass(frozen=True, slots=True)
class NotReady:
    """A ready job has lost its nodes, without an order, and waits in the queue."""

    number: int  #: Slurm's number of the job
    reason: str  #: one line


@dataclass(frozen=True, slots=True)
class GaveBack:
    """A job has carried out ``give_back``: it has no nodes, and waits in the queue."""

    number: int  #: Slurm's number of the job


@dataclass(frozen=True, slots=True)
class Started:
    """The job runs."""

    number: int  #: Slurm's number of the job
    at_ns: int  #: since when, by the wall clock


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The job got ``go`` but could not start; it waits in the queue again."""

    number: int  #: Slurm's number of the job
    reason: str  #: one line


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is over after it ran."""

    number: int  #: Slurm's number of the job
    outcome: str  #: Slurm's word for it


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job is over, or has no mates any more, before it ran."""

    number: int  #: Slurm's number of the job
    reason: str  #: one line


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of ``try_now``."""

    number: int  #: Slurm's number of the job
    ready: bool  #: the job has its nodes now, and waits for ``go``
    reason: str = ""  #: one line
    #: Otherwise, when it should have them if nothing else waits; None: unknown.
    expected_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """Slurm answers (again), or does not: then its jobs' states are unknown."""

    up: bool  #: whether Slurm answers
    reason: str = ""  #: one line


@dataclass(frozen=True, slots=True)
class Capacity:
    """The number of nodes that Slurm has in service."""

    nodes: int  #: nodes in service


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
