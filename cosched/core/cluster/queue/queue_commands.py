"""Defines the commands of a domain's queue. A driver carries them out, in order."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import Intervals


class Why(Enum):
    """Why a job must end. withdrawn: it was prepared, and waits in the queue again."""

    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"
    NODE_LOST = "node lost"
    WALLTIME = "walltime"


class StartJob(Struct, frozen=True):
    """Start the job on these nodes, now."""

    job: Job  #: the request
    nodes: Intervals  #: by number
    #: The halves of these nodes that it has, 2 x node and 2 x node + 1; (): nodes are not
    #: divided.
    halves: Intervals = ()
    #: The suspended job whose nodes these are; None: they were free.
    lender: JobId | None = None


class SuspendJob(Struct, frozen=True):
    """Stop all tasks of a job, so that another one can run on its nodes. The end of the
    order is reported: it is done or refused."""

    number: JobId  #: the job's number
    for_job: JobId  #: the job that is to have its nodes


class ContinueJob(Struct, frozen=True):
    """Let all tasks of a suspended job run again; this is reported."""

    number: JobId  #: the job's number


class LetIn(Struct, frozen=True):
    """These jobs were kept back and are in the queue from now on."""

    numbers: tuple[JobId, ...]  #: the jobs' numbers


class DropJobs(Struct, frozen=True):
    """These jobs can never start: a job that had to end well did not. They are not in the
    queue any more."""

    numbers: tuple[JobId, ...]  #: the jobs' numbers
    because: JobId  #: the job that did not end well


class ResizeJob(Struct, frozen=True):
    """Let the running job have exactly these nodes; the end of the change is reported. A
    job has one open change at most."""

    number: JobId  #: the job's number
    nodes: Intervals  #: by number
    by_ns: int | None = None  #: it is late from then on; None: never


class WithdrawResize(Struct, frozen=True):
    """Do without the open change of a job if it still can be refused; its end is reported
    either way."""

    number: JobId  #: the job's number


class ReserveJob(Struct, frozen=True):
    """It is the turn of a job with mates: these nodes are reserved for it."""

    job: Job  #: the request
    nodes: Intervals  #: by number


class ReservationHit(Struct, frozen=True):
    """A node that is reserved for a job with mates is lost: release the reservation."""

    number: JobId  #: the job's number


class EndJob(Struct, frozen=True):
    """End a running job; its end will be reported."""

    number: JobId  #: the job's number
    why: Why  #: the reason


class WakeAt(Struct, frozen=True):
    """Tick at this time at the latest; replaces an earlier WakeAt. None: no wake-up."""

    at_ns: int | None  #: ns, the queue's clock; None: no wake-up is needed


Command = (
    StartJob
    | SuspendJob
    | ContinueJob
    | LetIn
    | DropJobs
    | ResizeJob
    | WithdrawResize
    | ReserveJob
    | ReservationHit
    | EndJob
    | WakeAt
)
