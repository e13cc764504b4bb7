"""Defines what the engine of a coupled domain needs of the scheduler of its jobs.

The scheduler queues jobs by its own rules and reports what happens to those with mates. It
stops each of them when it has its nodes: the job is *ready*. It starts only after ``go``.
Orders return at once; their effects come as events. An order for a job that is not in a
fitting state any more has no effect, since its event is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cosched.cluster.coupling.mates import Mates


@dataclass(frozen=True, slots=True)
class PairedJob:
    """A job with mates. uid, user: its user, as the scheduler reports it. nodes: how many
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
    the scheduler writes them. size: how many; 0: as many as it wanted."""

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
    """The job is over after it ran. outcome: the scheduler's word for it."""

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
    """The scheduler answers (again), or does not: then its jobs' states are unknown."""

    up: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The scheduler has so many nodes in service."""

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


class Scheduler(Protocol):
    """The scheduler of a coupled domain's jobs, as the domain's engine sees it."""

    async def run(self, report: Report) -> None:
        """Reports events until it is cancelled. The first are those of jobs that exist,
        then ``Reached``. Raises CoschedError if the scheduler cannot be steered at all."""

    def go(self, number: int, mates: Sequence[tuple[str, str]] = ()) -> None:
        """Starts a ready job, and lets it find its mates: domain and address of each."""

    def give_back(self, number: int, wait_s: float) -> None:
        """Makes a ready job yield: it gives its nodes back, and waits in the queue for at
        least ``wait_s`` before it can be ready again."""

    def try_now(self, number: int) -> None:
        """Makes a queued job ready now if that can be; the result comes as ``Tried``."""

    def wake(self, number: int) -> None:
        """Ends the wait of a job that has given its nodes back."""

    def refuse(self, number: int, reason: str) -> None:
        """Holds a job that waits or is ready, until its user has corrected it; ``reason``
        is shown to the user."""

    def cancel(self, number: int, reason: str) -> None:
        """Cancels a job that waits; ``reason`` is shown to its user."""

    def set_priority(self, number: int, places: int) -> None:
        """Moves a queued job forward (backward if negative) by about so many places."""
