"""Defines the messages between domains about mates: jobs of one group, one a domain.

Each request names its answer. The asking domain waits for the answer, or for a report that
the other domain is down. The other domain answers at once, or after its own pass. Times are
nanoseconds of a clock that all domains share.

From the paper (section IV.C): ``GetMateJobId``, ``GetMateStatus``, ``TryStartMate``,
``StartMate`` (its remote.startJob). For groups of more than two: ``TryHoldMate`` and
``ReleaseMate``, because a started mate cannot be undone if a third one cannot start. For
temporal constraints: ``PromiseMate`` and ``MateStarted``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cosched.core.cluster.queue.messages import JobId

DomainName = str
GroupName = str


class MateState(str, Enum):
    """The state of a job of a group in its domain."""

    UNSUBMITTED = "unsubmitted"  #: announced, not in the queue yet
    QUEUING = "queuing"
    HOLDING = "holding"
    RUNNING = "running"
    UNKNOWN = "unknown"  #: it failed, ended, or was never announced


@dataclass(frozen=True, slots=True)
class GetMateJobId:
    """Asks for the job of this group. Answer: ``MateJobId``."""

    group: GroupName


@dataclass(frozen=True, slots=True)
class GetMateStatus:
    """Asks for the state of this job. Answer: ``MateStatus``."""

    number: JobId


@dataclass(frozen=True, slots=True)
class TryStartMate:
    """Asks for a scheduling pass that starts this job if possible. Answer: ``Done``."""

    number: JobId


@dataclass(frozen=True, slots=True)
class StartMate:
    """Asks to start this holding job. Answer: ``Done``, false if it does not hold."""

    number: JobId


@dataclass(frozen=True, slots=True)
class TryHoldMate:
    """Asks for a pass that makes this job hold its nodes until StartMate or ReleaseMate.
    Answer: ``Done``, false if it cannot hold now."""

    number: JobId


@dataclass(frozen=True, slots=True)
class ReleaseMate:
    """Withdraws the earlier requests for this job: its hold or its promise.
    Answer: ``Done``."""

    number: JobId


@dataclass(frozen=True, slots=True)
class PromiseMate:
    """Asks for a promise to start this job by ``by_ns``, before all other jobs.
    Answer: ``Done``."""

    number: JobId
    by_ns: int


@dataclass(frozen=True, slots=True)
class MateStarted:
    """Reports that the asking domain's job started; a mate may be due after a delay.
    Answer: ``Done``."""

    group: GroupName
    since_ns: int


@dataclass(frozen=True, slots=True)
class MateJobId:
    """The job's number; None if this domain has no job of the group."""

    number: JobId | None


@dataclass(frozen=True, slots=True)
class MateStatus:
    """The job's state. since_ns: the start of a running job."""

    state: MateState
    since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """Whether the request was carried out."""

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
