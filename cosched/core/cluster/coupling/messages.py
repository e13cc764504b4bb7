"""Defines the events and commands of a coupled domain, beside those of its queue.

A driver delivers an ``Ask`` to the other domain as ``Asked``, and its ``Reply`` as
``Answered``. A domain that waits for an answer accepts every event; it keeps some of them
until its pass is over. A driver without an answer in time delivers
``Answered(now_ns, None)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cosched.core.cluster.coupling.protocol import Answer, DomainName, GroupName, Request
from cosched.core.cluster.queue import messages as queue
from cosched.core.cluster.queue.messages import Job, JobId
from cosched.core.cluster.queue.nodes import Intervals


class Timing(str, Enum):
    """How the starts of a group's jobs depend on each other."""

    TOGETHER = "together"
    WITHIN = "within"  #: the starts are at most the delay apart
    AFTER = "after"  #: the leader has run for the delay, or has ended


@dataclass(frozen=True, slots=True)
class Group:
    """One job in each of several domains.

    members: its domains, including this one. timing, delay_ns: the constraint. leader: the
    domain whose job starts first, for ``AFTER``.
    """

    name: GroupName
    members: tuple[DomainName, ...]
    timing: Timing = Timing.TOGETHER
    delay_ns: int = 0
    leader: DomainName = ""


@dataclass(frozen=True, slots=True)
class JobAnnounced:
    """A job of a group will be submitted here."""

    now_ns: int
    number: JobId
    group: Group


@dataclass(frozen=True, slots=True)
class Asked:
    """Another domain sent a request."""

    now_ns: int
    by: DomainName
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to the last Ask; None if the other domain is down."""

    now_ns: int
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a request to another domain; one request is open at a time."""

    to: DomainName
    request: Request


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request of another domain."""

    to: DomainName
    answer: Answer


@dataclass(frozen=True, slots=True)
class HoldJob:
    """Hold the job: it is ready, its mates are not, and it keeps these nodes idle."""

    job: Job
    nodes: Intervals


@dataclass(frozen=True, slots=True)
class ReleaseJob:
    """Release the held nodes of the job; it waits in the queue again."""

    job: Job


@dataclass(frozen=True, slots=True)
class YieldJob:
    """Yield: the job is ready, its mates are not, and other jobs go first."""

    job: Job


class Scheme(str, Enum):
    """The choice of a ready job while its mates are not ready."""

    HOLD = "hold"
    YIELD = "yield"


Event = queue.Event | JobAnnounced | Asked | Answered
Command = queue.Command | Ask | Reply | HoldJob | ReleaseJob | YieldJob
