"""What domains say to each other about mates: jobs of one group, one in each domain.

A question names its answer. Whoever asks waits for the answer, or for the news that there
is none (the other domain is down); whoever is asked answers at once, or as soon as its own
pass is over. Times are nanoseconds of a clock that the domains have in common.

From the paper (section IV.C): ``GetMateJobId``, ``GetMateStatus``, ``TryStartMate``,
``StartMate`` (its remote.startJob). For groups of more than two: ``TryHoldMate`` and
``ReleaseMate``, since a mate that was started cannot be taken back when a third cannot.
For temporal constraints: ``PromiseMate`` and ``MateStarted``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cosched.core.cluster.queue.messages import JobId

DomainName = str
GroupName = str


class MateState(str, Enum):
    """What a job of a group is doing, as its domain says."""

    UNSUBMITTED = "unsubmitted"  #: announced, not in the queue yet
    QUEUING = "queuing"
    HOLDING = "holding"
    RUNNING = "running"
    UNKNOWN = "unknown"  #: it failed, or ended, or was never heard of


@dataclass(frozen=True, slots=True)
class GetMateJobId:
    """Which of your jobs belongs to this group? Answer: ``MateJobId``."""

    group: GroupName


@dataclass(frozen=True, slots=True)
class GetMateStatus:
    """What is this job doing? Answer: ``MateStatus``."""

    number: JobId


@dataclass(frozen=True, slots=True)
class TryStartMate:
    """Make a scheduling pass and start this job if it can start now. Answer: ``Done``."""

    number: JobId


@dataclass(frozen=True, slots=True)
class StartMate:
    """Start this job, which holds its nodes. Answer: ``Done``, false if it does not."""

    number: JobId


@dataclass(frozen=True, slots=True)
class TryHoldMate:
    """Make a pass and let this job hold its nodes until I say start or release, if it can
    have them now or has them already. Answer: ``Done``."""

    number: JobId


@dataclass(frozen=True, slots=True)
class ReleaseMate:
    """What you did for this job at my request (held nodes, a promise) is off.
    Answer: ``Done``."""

    number: JobId


@dataclass(frozen=True, slots=True)
class PromiseMate:
    """Can you promise to start this job by then? It goes before all others if you do.
    Answer: ``Done``."""

    number: JobId
    by_ns: int


@dataclass(frozen=True, slots=True)
class MateStarted:
    """My job of this group started: a mate may be due some time after. Answer: ``Done``."""

    group: GroupName
    since_ns: int


@dataclass(frozen=True, slots=True)
class MateJobId:
    """The job's number, or None: no job of this group is known here."""

    number: JobId | None


@dataclass(frozen=True, slots=True)
class MateStatus:
    """since_ns: when it started, of a running job."""

    state: MateState
    since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """Whether it was done."""

    yes: bool


Request = (
    GetMateJobId
    | GetMateStatus
    | TryStartMate
    | StartMate
    | TryHoldMate
    | ReleaseMate
    | PromiseMate
    | MateStarted
)
Answer = MateJobId | MateStatus | Done
