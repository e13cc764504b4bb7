"""Defines the record of a job that has ended on a node, and its line in the history.

Names carry their units. docs/dev/formats.md describes the fields. If old readers would
misunderstand a change, raise ``VERSION``.
"""

from __future__ import annotations

import msgspec

from cosched.core.decoding import JsonDecoder, Malformed
from cosched.core.errors import CoschedError
from cosched.core.node.messages import Job, Refusal
from cosched.core.trace.account import Account
from cosched.core.trace.filling import Filling
from cosched.core.trace.neighbours import Sharing
from cosched.core.units import NS_PER_US

VERSION = 1
#: The most bytes of a line.
LINE_MOST = 1 << 20


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One job on one node, from its first task's registration to its last task's end."""

    cosched_history: int = VERSION  #: the version of the format
    node: str  #: the node's name
    job: Job  #: the job's key on the node
    name: str  #: the job's name
    uid: int  #: its owner's number
    ranks: tuple[int, ...]  #: its ranks on this node, in ascending order
    world: int  #: the number of its ranks on all nodes
    carrier: str  #: how its status travels; ``unknown``: by a number without a name
    began_wall_ns: int  #: when it began, by the wall clock
    ended_wall_ns: int  #: when it ended: its beginning and the time that it lasted
    #: The daemon began after the job or ended before it. The record covers only the time
    #: with the daemon.
    partial: bool
    #: How long the job was on the node, in seconds; no run time if CPUs are shared. It is
    #: the sum of the next four.
    response_s: float
    scheduled_s: float  #: how long it was scheduled, in seconds
    unscheduled_s: float  #: how long another job had its CPUs, in seconds
    suspended_s: float  #: how long its owner had stopped it, in seconds
    released_s: float  #: how long it had the kernel's normal shares, in seconds
    #: The same for runs of one program with the same arguments and ranks; 0: unknown.
    kind: int = 0
    #: How long it was expected to be scheduled, in seconds; 0: unknown.
    expected_s: float = 0.0
    #: The part of ``response_s`` before the last task here came to MPI; all of it for a
    #: program without MPI.
    launch_s: float = 0.0
    #: How long after the user's command it began, in seconds; None: unknown.
    began_after_s: float | None = None
    cpu_s: float | None  #: CPU time of all its processes, in seconds; None: unknown
    switches: int  #: how often it was scheduled
    granted: int  #: the number of its requests that were granted
    #: The number of its refused requests, by reason.
    refused: dict[Refusal, int] = msgspec.field(default_factory=dict)
    #: The number of tasks that called MPI_Init and ended without MPI_Finalize; None: the
    #: record is of an earlier version.
    unfinished: int | None = None
    trapped: int  #: the number of messages that were trapped
    sent: int  #: the number of messages that its tasks sent
    received: int  #: the number of messages that its tasks received
    waited_s: float  #: the time in calls that wait, in seconds, a sum over its tasks
    #: The part of its CPUs that it needed while scheduled, in percent; 0: unknown.
    need: int = 0
    #: How its waits were filled, and which waits it filled; None: the record is of an
    #: earlier version.
    filling: Filling | None = None
    #: What was seen beside other jobs; None: its user named no resource that limits it, or
    #: the record is of an earlier version.
    sharing: Sharing | None = None
    #: When it was scheduled, (start, end) in microseconds after its beginning; the last
    #: ones.
    intervals_us: tuple[tuple[int, int], ...] = ()
    #: No interval is missing from here on, in microseconds after its beginning.
    complete_from_us: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether ``scheduled_s`` is the whole length of the job."""
        return not (self.partial or self.released_s) and self.scheduled_s > 0


_decoder: JsonDecoder[JobRecord] = JsonDecoder(JobRecord, "a line of a history", LINE_MOST)


def intervals_of(account: Account) -> tuple[tuple[int, int], ...]:
    """Returns when the job was scheduled, in microseconds after its beginning."""
    began_ns = account.began.now_ns
    return tuple(
        ((begin.now_ns - began_ns) // NS_PER_US, (end.now_ns - began_ns) // NS_PER_US)
        for begin, end, _ in account.intervals
    )


def encode_record(record: JobRecord) -> bytes:
    """Returns the record's line with its line feed."""
    return msgspec.json.encode(record) + b"\n"


def decode_record(line: bytes) -> JobRecord:
    """Decodes a line. Raises CoschedError, without the line's number, for another text."""
    record = _decoder.decode(line)
    if record.cosched_history != VERSION:
        raise CoschedError(
            f"written in version {record.cosched_history} of the history's format; "
            f"this cosched reads version {VERSION}"
        )
    return record


class _Owned(msgspec.Struct, frozen=True):
    uid: int


class _Dated(msgspec.Struct, frozen=True):
    ended_wall_ns: int


_OWNED: JsonDecoder[_Owned] = JsonDecoder(_Owned, "a line of a history")
_ENDED: JsonDecoder[_Dated] = JsonDecoder(_Dated, "a line of a history", LINE_MOST)


def owner_of(line: bytes) -> int:
    """Returns the user of a line, without decoding the rest; -1 for another text."""
    try:
        return _OWNED.decode(line).uid
    except Malformed:
        return -1


def ended_before(line: bytes, wall_ns: int) -> bool:
    """Returns whether a line is about a job that ended before a time, without decoding the
    rest; True for another text."""
    try:
        return _ENDED.decode(line).ended_wall_ns < wall_ns
    except Malformed:
        return True


def line_of(record: JobRecord) -> str:
    """Returns the record as one line for the log."""
    refused = sum(record.refused.values())
    cpu = "unknown" if record.cpu_s is None else f"{record.cpu_s:.2f} s"
    partial = ", seen in part" if record.partial else ""
    return (
        f"job {record.job} ended{partial}: response {record.response_s:.2f} s, of it "
        f"scheduled {record.scheduled_s:.2f} s, unscheduled {record.unscheduled_s:.2f} s, "
        f"suspended {record.suspended_s:.2f} s, released {record.released_s:.2f} s; "
        f"CPU {cpu}; scheduled {record.switches} times; messages trapped "
        f"{record.trapped}, requests granted {record.granted}, refused {refused}"
    )
