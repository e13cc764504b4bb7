"""Events and commands of a coupled domain, beside those of its queue.

A driver carries an ``Ask`` to the other domain as ``Asked`` and brings the ``Reply`` back
as ``Answered``. While a domain waits for an answer it may be told anything: what must wait
is kept until its pass is over. A driver that gets no answer in time says
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
    WITHIN = "within"  #: of each other, at most so long apart
    AFTER = "after"  #: the leader has run for so long, or is gone


@dataclass(frozen=True, slots=True)
class Group:
    """One job in each of several domains.

    members: its domains, this one included. timing, delay_ns: the constraint. leader: the
    domain whose job goes first, for ``AFTER``.
    """

    name: GroupName
    members: tuple[DomainName, ...]
    timing: Timing = Timing.TOGETHER
    delay_ns: int = 0
    leader: DomainName = ""


@dataclass(frozen=True, slots=True)
class JobAnnounced:
    """A job of a group will be submitted here, or is about to be."""

    now_ns: int
    number: JobId
    group: Group


@dataclass(frozen=True, slots=True)
class Asked:
    """Another domain wants something."""

    now_ns: int
    by: DomainName
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """What the domain that was asked last said; None: nothing, it is down."""

    now_ns: int
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask another domain; one question is open at a time."""

    to: DomainName
    request: Request


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question of another domain."""

    to: DomainName
    answer: Answer


@dataclass(frozen=True, slots=True)
class HoldJob:
    """The job is ready, its mates are not: it keeps these nodes, idle."""

    job: Job
    nodes: Intervals


@dataclass(frozen=True, slots=True)
class ReleaseJob:
    """The job gave the nodes that it held back and waits in the queue."""

    job: Job


@dataclass(frozen=True, slots=True)
class YieldJob:
    """The job is ready, its mates are not: others go first."""

    job: Job


class Scheme(str, Enum):
    """What a ready job does whose mates are not."""

    HOLD = "hold"
    YIELD = "yield"


Event = queue.Event | JobAnnounced | Asked | Answered
Command = queue.Command | Ask | Reply | HoldJob | ReleaseJob | YieldJob
