"""Defines the messages between the controller and the agents, and their encoding.

Each message is one MessagePack array whose first element is the message's name. The
sender's identity is the owner of the key of its connection; no message carries one. A start
is identified by (job, start): the start's number grows each time the job is started. Tasks
that the job spawns are its worlds 1, 2, ...; each world has a tree, as a start has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from cosched.cluster.message_kinds import Message, OfJob
from cosched.cluster.sharing_messages import JobShared
from cosched.cluster.size_messages import (
    Admit,
    Admitted,
    ChangeEnded,
    Dismiss,
    JobSensed,
    PageAnswer,
    PageOrder,
    Resize,
    WithdrawChange,
)
from cosched.cluster.suspend_messages import (
    ContinueTasks,
    SuspendTasks,
    TasksContinued,
    TasksSuspended,
)
from cosched.core.bounds import (
    CurveKey,
    GroupId,
    Name,
    Natural,
    Offset,
    Positive,
    Slots,
    Status,
    Stream,
    UserId,
)
from cosched.core.cluster.coupling.mate_messages import Addresses
from cosched.core.cluster.startup.questions import Question, RootAnswer
from cosched.core.decoding import MessagePackDecoder

#: Peers of another version are refused.
PROTOCOL = 16
#: The longest message, in bytes; a longer one is refused.
LONGEST = 64 << 20
#: The most bytes of one ``GiveInput``.
PIECE_MOST = 1 << 20
#: For ``GiveInput.at``: behind all that came before.
AT_END = -1


# --- an agent and the controller: membership ----------------------------------------------


#: The stage of a start whose tasks are gone.
ENDED = "ended"


class StartReport(msgspec.Struct, frozen=True, array_like=True):
    """A start that an agent has."""

    job: Natural  #: the job's number
    start: Slots  #: how often the job was started
    stage: Name  #: a ``Stage``
    since_ns: Natural  #: when its tasks began, by the wall clock
    root: bool  #: whether this node is its root

    @property
    def has_tasks(self) -> bool:
        """Whether this node may still have tasks of it."""
        return self.stage != ENDED


class Hello(Message, frozen=True):
    """An agent joins."""

    protocol: Natural  #: the version that it speaks
    incarnation: Natural  #: differs for each life of the agent
    config: Name  #: the digest of its domain.toml
    totals: dict[Name, Slots]  #: resources for each job, by name
    starts: tuple[StartReport, ...]  #: that it has
    #: The slots of its smallest part; 0: it is not divided.
    part_slots: Slots = 0
    memory_bytes: Natural = 0  #: the memory of its machine; 0: not known


class Welcome(Message, frozen=True):
    """The controller has accepted an agent."""

    #: Differs for each life of the controller, and after each loss of the node.
    session: Natural
    secret: bytes  #: proves job objects (``seal``)
    incarnation: Natural  #: of this agent, as it was in ``Hello``


class Refused(Message, frozen=True):
    """The controller does not accept an agent."""

    reason: str  #: one line
    #: Of this agent, as it was in ``Hello``; a later one may be accepted. 0: any.
    incarnation: Natural = 0


class RosterNode(msgspec.Struct, frozen=True, array_like=True):
    """A node of the domain."""

    number: Slots  #: no other node of the domain ever has it
    name: Name  #: as in domain.toml
    address: Name  #: ``HOST:PORT`` of its agent
    key: CurveKey  #: its public key


class Roster(Message, frozen=True):
    """The nodes of the domain, until the next such message."""

    version: Natural  #: grows with each change
    nodes: tuple[RosterNode, ...]  #: all of them


class Beat(Message, frozen=True):
    """The agent lives."""

    session: Natural  #: as it was in ``Welcome``


class Leave(Message, frozen=True):
    """The agent must end: the domain ends, or the node was removed."""

    why: str = "the domain has ended"  #: one line for the agent's log


class HelloAgain(Message, frozen=True):
    """The controller does not have this agent (it has restarted); it must join again."""


# --- the start of a job, over its tree ----------------------------------------------------


class Chunk(OfJob, frozen=True):
    """A part of the job object, for the node at ``place`` of the tree."""

    place: Slots  #: the receiver's place in the tree
    #: The numbers of the job's nodes, by place.
    nodes: tuple[tuple[Slots, Slots], ...]
    arity: Positive  #: the children of a node in the tree
    exchange: Name  #: the design of the table exchange
    number: Slots  #: the chunk's number, from 0
    count: Positive  #: the number of all chunks
    root: Slots  #: the number of the job's root
    data: bytes  #: the bytes
    #: The version of the roster that has all these nodes.
    roster: Natural = 0

    def with_parts(self, parts: Sequence[bytes]) -> list[Chunk]:
        """Returns a chunk like this one for each part of an object."""
        return [
            msgspec.structs.replace(self, number=number, count=len(parts), data=part)
            for number, part in enumerate(parts)
        ]


class SubtreePrepared(OfJob, frozen=True):
    """The tasks of the sender's subtree wait at their gates."""


class StartFailed(OfJob, frozen=True):
    """A node cannot start its tasks."""

    place: Slots  #: the node
    reason: str  #: one line
    again: bool  #: another start may succeed


class Order(OfJob, frozen=True):
    """The tasks of the receiver's subtree go, or are discarded."""

    go: bool  #: False: they are discarded
    #: The domain and the address of each job that begins with this one.
    mates: Addresses = ()


class Began(OfJob, frozen=True):
    """The root has opened its gate."""

    since_ns: Natural  #: when, by the wall clock


class Tables(OfJob, frozen=True):
    """Tables of these nodes, in the job's exchange ``number``."""

    number: Natural  #: the exchange's number, from 0
    places: tuple[Slots, ...]  #: whose tables they are
    data: tuple[bytes, ...]  #: a table for each place
    last: bool  #: no more will follow from this sender


# --- while a job runs ---------------------------------------------------------------------


class Output(OfJob, frozen=True):
    """Bytes that tasks of the node ``place`` wrote. Goes to the root."""

    place: Slots  #: the place of the node whose tasks wrote
    stream: Stream  #: 1: standard output; 2: standard error
    data: bytes  #: the bytes


class Credit(OfJob, frozen=True):
    """The root has written output of a node."""

    place: Slots  #: the place of the node whose tasks wrote
    written: Natural  #: bytes since the last such message


class GiveInput(OfJob, frozen=True):
    """Standard input for rank 0, from a member to the root."""

    number: Natural  #: the answer's; 0: none
    uid: UserId  #: the user that gives it
    at: Offset  #: how many bytes are before it, or AT_END
    data: bytes  #: the bytes
    last: bool  #: no more will follow


class InputTaken(Message, frozen=True):
    """The answer to ``GiveInput``."""

    number: Natural  #: the input's number
    taken: Natural  #: the bytes that rank 0 got, in all
    open: bool  #: whether it takes more
    problem: str  #: why the input was refused


class End(OfJob, frozen=True):
    """The tasks of the receiver's subtree must end."""

    reason: str  #: one line
    #: The tree is broken, so each node gets this from the controller and reports to it.
    direct: bool


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why a job did not end well."""

    status: Status  #: an exit status as a shell reports it
    reason: str  #: one line


class TaskFailed(OfJob, frozen=True):
    """A task of the sender's subtree failed, so the job must end. Goes to the root."""

    failure: Failure  #: the status and the reason


class SubtreeEnded(OfJob, frozen=True):
    """All tasks of the sender's subtree are gone. From the root, the job has ended."""

    failure: Failure | None  #: why the job did not end well; None: no reason
    #: When, by the wall clock of the sender; 0: not known.
    ended_ns: Natural = 0


class NodeEnded(OfJob, frozen=True):
    """All tasks of the sender are gone, after a direct ``End`` or an unknown start."""


class EndNoted(OfJob, frozen=True):
    """The controller has stored the end of the start; the agent may forget it."""


# --- what tasks ask the root of their job -------------------------------------------------


class Ask(OfJob, frozen=True):
    """A task of the sender asks the job's root."""

    number: Natural  #: the question's, in its world on the node
    question: Question  #: for the job's root


class Answered(OfJob, frozen=True):
    """The root's answer to the question ``number``."""

    number: Natural  #: the question's number
    answer: RootAnswer  #: the answer of the job's root


# --- requests of users --------------------------------------------------------------------


class UserRequest(Message, frozen=True):
    """A user's request from the socket of an agent."""

    number: Natural  #: differs for each request of the agent
    uid: UserId  #: from the kernel of that node
    gid: GroupId  #: the user's group
    body: bytes  #: one line of JSON


class UserLeft(Message, frozen=True):
    """The user of the request ``number`` has left: no answer is wanted."""

    number: Natural  #: the request's number


class UserReply(Message, frozen=True):
    """The answer to the request ``number``."""

    number: Natural  #: the request's number
    body: bytes  #: one line of JSON


# --- coupled domains ----------------------------------------------------------------------


class BetweenDomains(Message, frozen=True):
    """A message about the jobs of a group (``coupling.mail``), from one controller to that
    of another domain."""

    data: bytes  #: an encoded question or answer


AnyMessage: TypeAlias = (
    Hello
    | Welcome
    | Refused
    | Roster
    | Beat
    | HelloAgain
    | Leave
    | Chunk
    | SubtreePrepared
    | StartFailed
    | Order
    | Began
    | Tables
    | Output
    | Credit
    | GiveInput
    | InputTaken
    | End
    | TaskFailed
    | SubtreeEnded
    | NodeEnded
    | EndNoted
    | Admit
    | Admitted
    | Resize
    | WithdrawChange
    | PageOrder
    | PageAnswer
    | ChangeEnded
    | Dismiss
    | JobSensed
    | SuspendTasks
    | TasksSuspended
    | ContinueTasks
    | TasksContinued
    | JobShared
    | Ask
    | Answered
    | UserRequest
    | UserLeft
    | UserReply
    | BetweenDomains
)

#: They are sent at intervals, or are asked for again, so one may be lost.
PLAIN = (Hello, HelloAgain, Beat, BetweenDomains)
#: They are kept for a node that is lost, until it returns or begins a new life. Its other
#: messages are dropped: the controller has ended the starts on the node.
LASTING = (UserReply,)
#: They are kept for a node that begins a new life: a start may hit it before its neighbours
#: have met this life. The node refuses a start that was sealed for another life.
ANY_LIFE = (Chunk,)

_encoder = msgspec.msgpack.Encoder()
_decoder: MessagePackDecoder[AnyMessage] = MessagePackDecoder(
    AnyMessage, "a message of a domain", LONGEST
)


def encode(message: Message) -> bytes:
    """Returns the message as bytes."""
    return _encoder.encode(message)


def decode(data: bytes | memoryview) -> AnyMessage:
    """Returns the message. Raises Malformed for bytes that are none."""
    return _decoder.decode(data)
