"""Defines the messages between domains about the jobs of a group.

A ``Question`` has the sender, its incarnation and a number; the ``Answer`` repeats the last
two. A question may arrive twice: the second time it gets the same answer, and nothing is
done again. ``docs/dev/coupling-protocol.md`` shows who sends what, and when.

A domain of the group is the *coordinator*: the first by name that answers. It starts the
jobs in *rounds*: all reserve nodes, all prepare, all go. A round is named by its
coordinator, the incarnation there and a number, so a later round of a coordinator has a
greater name. Times in messages are durations.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeAlias

import msgspec

from cosched.core.bounds import Name, Natural

#: The name of a round: (its coordinator, the incarnation there, a number).
RoundId: TypeAlias = tuple[Name, Natural, Natural]
#: Bytes of the address of a job. A message may have those of 17 jobs, in 64 KiB.
LONGEST_ADDRESS = 3400
#: How to reach each started job of a group, as its engine reported it.
Addresses: TypeAlias = tuple[tuple[Name, str], ...]


class Message(msgspec.Struct, frozen=True, tag=True):
    """The base of all parts of messages."""


# --- what a domain asks -------------------------------------------------------------------


class Ping(Message, frozen=True):
    """Asks for a sign of life. Answer: Alive."""


class Announce(Message, frozen=True):
    """A job of the group was announced. Answer: Known, Unknown or Refused."""


class Ready(Message, frozen=True):
    """To the coordinator: the sender's job has nodes and would start. Answer: Joined or
    NotReady."""

    older_ns: Natural  #: the wall time of the group's first announcement


class Reserve(Message, frozen=True):
    """To a member: give your job nodes now, and keep them for this round. Answer: Reserved,
    Promised, NotReady, Running or Over."""

    round: RoundId  #: names the round
    older_ns: Natural  #: the wall time of the group's first announcement


class Prepare(Message, frozen=True):
    """To a member: make the job so ready that it can begin in an instant.
    Answer: Prepared or NotReady."""

    round: RoundId  #: names the round


class Go(Message, frozen=True):
    """To a member: the round is decided, the job begins. Answer: Went or Lapsed."""

    round: RoundId  #: names the round
    addresses: Addresses  #: the address of each job that begins


class Abort(Message, frozen=True):
    """To a member: the round has failed. Answer: Done."""

    round: RoundId  #: names the round


class Outcome(Message, frozen=True):
    """A prepared member that got no decision asks the coordinator for it.
    Answer: Decided, Undecided or Aborted."""

    round: RoundId  #: names the round


class LeaderStatus(Message, frozen=True):
    """From a follower to its leader's domain. Answer: Running, Over or NotReady."""


class LeaderStarted(Message, frozen=True):
    """To a follower: the leader has begun. Answer: Done."""

    age_ns: Natural  #: since the job began
    over: bool = False  #: it has ended


class Departed(Message, frozen=True):
    """To a member: the sender's job began without this one, or is over. Answer: Done."""


AnyAsk: TypeAlias = (
    Ping
    | Announce
    | Ready
    | Reserve
    | Prepare
    | Go
    | Abort
    | Outcome
    | LeaderStatus
    | LeaderStarted
    | Departed
)


# --- what a domain answers ----------------------------------------------------------------


class Cause(str, Enum):
    """Why a job is not ready."""

    NODES = "nodes"  #: there are too few free nodes for it
    BUSY = "busy"  #: jobs of other groups have nodes for a moment
    UNSUBMITTED = "unsubmitted"
    DOWN = "down"  #: a mate's domain does not answer
    UNKNOWN = "unknown"  #: a mate's domain does not have the group
    RECOVERING = "recovering"  #: a mate's domain restarts
    REFUSED = "refused"  #: a mate's domain does not accept the group
    FAILED = "failed"  #: the preparation failed


class Recovering(Message, frozen=True):
    """The domain restarts and cannot answer yet."""


class Unknown(Message, frozen=True):
    """The domain has no job of this group."""


class Refused(Message, frozen=True):
    """The domain does not accept the question."""

    reason: str  #: one line


class Working(Message, frozen=True):
    """The answer takes its time: the question came again before it was there."""


class Alive(Message, frozen=True):
    """The domain answers."""


class Done(Message, frozen=True):
    """It is done."""


class Known(Message, frozen=True):
    """The domain has a job of the same group, with this number."""

    job: Natural  #: its number there


class Joined(Message, frozen=True):
    """The coordinator's round has this job; a Prepare will come."""

    round: RoundId  #: names the round


class Reserved(Message, frozen=True):
    """The job has nodes and keeps them for this round."""

    round: RoundId  #: names the round


class Promised(Message, frozen=True):
    """The job will start in time, once the round goes."""

    round: RoundId  #: names the round


class NotReady(Message, frozen=True):
    """The job cannot start now."""

    cause: Cause  #: the reason


class Running(Message, frozen=True):
    """The job runs already, for ``age_ns``."""

    age_ns: Natural  #: since the job began


class Over(Message, frozen=True):
    """The job has ended, has failed or was cancelled."""


class Prepared(Message, frozen=True):
    """The job waits for Go. For ``lease_ns`` from now it does nothing else."""

    round: RoundId  #: names the round
    lease_ns: Natural  #: from now, a duration
    address: str  #: how to reach it


class Went(Message, frozen=True):
    """The job has begun, or will begin as promised."""


class Lapsed(Message, frozen=True):
    """The job does not wait for this Go any more; its lease is over."""


class Decided(Message, frozen=True):
    """The round goes."""

    addresses: Addresses  #: the address of each job that begins


class Undecided(Message, frozen=True):
    """The round is not decided yet."""


class Aborted(Message, frozen=True):
    """The round has failed, or never was."""


AnyReply: TypeAlias = (
    Recovering
    | Unknown
    | Refused
    | Working
    | Alive
    | Done
    | Known
    | Joined
    | Reserved
    | Promised
    | NotReady
    | Running
    | Over
    | Prepared
    | Went
    | Lapsed
    | Decided
    | Undecided
    | Aborted
)
#: Answers before which nothing was done: the same question may get another one later.
PASSING = (Recovering, Unknown, Refused, Working, Alive, Undecided)


# --- envelopes ----------------------------------------------------------------------------


#: The number of a job; -1: the domain has none in the group.
_JobOrNone = Annotated[int, msgspec.Meta(ge=-1, lt=1 << 62)]


class Question(Message, frozen=True):
    """A question about one group."""

    sender: Name  #: the domain that asks
    incarnation: Natural  #: the sender's life; each restart has a greater number
    number: Natural  #: differs for each question of an incarnation
    floor: Natural  #: no question with a smaller number is open any more
    group: Name  #: its name; empty: about no group
    digest: Name  #: that of the group
    job: _JobOrNone  #: the number of the sender's job; -1: none
    user: Name  #: its user, as the sender vouches
    ask: AnyAsk  #: the content


class Answer(Message, frozen=True):
    """An answer."""

    sender: Name  #: the domain that answers
    incarnation: Natural  #: that of the question
    number: Natural  #: that of the question
    reply: AnyReply  #: the content


AnyMessage: TypeAlias = Question | Answer
