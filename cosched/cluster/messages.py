"""Defines the messages between the controller and the agents, and their encoding.

Each message is one MessagePack array whose first element is the message's name. The
sender's identity is the owner of the key of its connection; no message carries one. A start
is identified by (job, start): the start's number grows each time the job is started. Tasks
that the job spawns are its worlds 1, 2, ...; each world has a tree, as a start has one.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cosched.core.bounds import (
    GroupId,
    Name,
    Natural,
    Offset,
    Positive,
    Seconds,
    Slots,
    Status,
    Stream,
    UserId,
)
from cosched.core.cluster.coupling.mate_messages import Addresses
from cosched.core.cluster.startup.questions import Question, RootAnswer
from cosched.core.decoding import MessagePackDecoder

#: Peers of another version are refused.
PROTOCOL = 6
#: The longest message, in bytes; a longer one is refused.
LONGEST = 64 << 20


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The base of all messages."""


class OfWorld(Message, frozen=True, kw_only=True):
    """The base of messages about one world of a job; 0: the tasks that it began with."""

    world: Slots = 0


class OfJob(OfWorld, frozen=True):
    """The base of messages about one start of a job."""

    job: Natural
    start: Slots


# --- an agent and the controller: membership ----------------------------------------------


#: The stage of a start whose tasks are gone.
ENDED = "ended"


class StartReport(msgspec.Struct, frozen=True, array_like=True):
    """A start that an agent has. stage: a ``Stage``; since_ns: when its tasks began, by the
    wall clock; root: whether this node is its root."""

    job: Natural
    start: Slots
    stage: Name
    since_ns: Natural
    root: bool

    @property
    def has_tasks(self) -> bool:
        """Whether this node may still have tasks of it."""
        return self.stage != ENDED


class Hello(Message, frozen=True):
    """An agent joins. incarnation: differs for each life of the agent. config: the digest
    of its domain.toml. totals: what it has for
    each job."""

    protocol: Natural
    incarnation: Natural
    config: Name
    totals: dict[Name, Slots]
    starts: tuple[StartReport, ...]


class Welcome(Message, frozen=True):
    """The controller has accepted an agent. session: differs for each life of the
    controller, and after each loss of the node. beat_s: how often the agent must send
    ``Beat``. secret: proves job objects (``seal``). incarnation: of this agent, as it was
    in ``Hello``."""

    session: Natural
    beat_s: Seconds
    secret: bytes
    incarnation: Natural


class Refused(Message, frozen=True):
    """The controller does not accept an agent. incarnation: of this agent, as it was in
    ``Hello``; a later one may be accepted. 0: any."""

    reason: str
    incarnation: Natural = 0


class Beat(Message, frozen=True):
    """The agent lives. session: as it was in ``Welcome``."""

    session: Natural


class Leave(Message, frozen=True):
    """The domain ends: the agent must end."""


class HelloAgain(Message, frozen=True):
    """The controller does not have this agent (it has restarted); it must join again."""


# --- the start of a job, over its tree ----------------------------------------------------


class Chunk(OfJob, frozen=True):
    """A part of the job object, for the node at ``place`` of the tree. nodes: the job's
    nodes, as numbers in domain.toml, by place. root: the number of the job's root."""

    place: Slots
    nodes: tuple[tuple[Slots, Slots], ...]
    arity: Positive
    exchange: Name
    number: Slots
    count: Positive
    root: Slots
    data: bytes


class SubtreePrepared(OfJob, frozen=True):
    """The tasks of the sender's subtree wait at their gates."""


class StartFailed(OfJob, frozen=True):
    """A node cannot start its tasks. again: another start may succeed."""

    place: Slots
    reason: str
    again: bool


class Order(OfJob, frozen=True):
    """The tasks of the receiver's subtree go, or are discarded. mates: the domain and
    the address of each job that begins with this one."""

    go: bool
    mates: Addresses = ()


class Began(OfJob, frozen=True):
    """The root has opened its gate."""

    since_ns: Natural


class Tables(OfJob, frozen=True):
    """Tables of these nodes, in the job's exchange ``number``; last: no more will follow
    from this sender."""

    number: Natural
    places: tuple[Slots, ...]
    data: tuple[bytes, ...]
    last: bool


# --- while a job runs ---------------------------------------------------------------------


class Output(OfJob, frozen=True):
    """Bytes that tasks of the node ``place`` wrote; stream: 1 or 2. Goes to the root."""

    place: Slots
    stream: Stream
    data: bytes


class Credit(OfJob, frozen=True):
    """The root has written so many bytes of the node ``place``."""

    place: Slots
    written: Natural


class GiveInput(OfJob, frozen=True):
    """Standard input for rank 0, from a member to the root. number: the answer's; 0: none.
    uid: the user that gives it. at: how many bytes are before it; -1: all that came."""

    number: Natural
    uid: UserId
    at: Offset
    data: bytes
    last: bool


class InputTaken(Message, frozen=True):
    """The answer to ``GiveInput``. taken: the bytes that rank 0 got, in all. open: whether
    it takes more. problem: why the input was refused."""

    number: Natural
    taken: Natural
    open: bool
    problem: str


class End(OfJob, frozen=True):
    """The tasks of the receiver's subtree must end. direct: the tree is broken, so each
    node gets this from the controller and reports to it."""

    reason: str
    direct: bool


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why a job did not end well. status: an exit status as a shell reports it."""

    status: Status
    reason: str


class TaskFailed(OfJob, frozen=True):
    """A task of the sender's subtree failed, so the job must end. Goes to the root."""

    failure: Failure


class SubtreeEnded(OfJob, frozen=True):
    """All tasks of the sender's subtree are gone. From the root, the job has ended."""

    failure: Failure | None


class NodeEnded(OfJob, frozen=True):
    """All tasks of the sender are gone, after a direct ``End`` or an unknown start."""


class EndNoted(OfJob, frozen=True):
    """The controller has stored the end of the start; the agent may forget it."""


# --- what tasks ask the root of their job -------------------------------------------------


class Ask(OfJob, frozen=True):
    """A task of the sender asks the job's root. number: the question's, in its world on the
    node."""

    number: Natural
    question: Question


class Answered(OfJob, frozen=True):
    """The root's answer to the question ``number``."""

    number: Natural
    answer: RootAnswer


# --- requests of users --------------------------------------------------------------------


class UserRequest(Message, frozen=True):
    """A user's request from the socket of an agent. uid: from the kernel of that node."""

    number: Natural
    uid: UserId
    gid: GroupId
    body: bytes


class UserLeft(Message, frozen=True):
    """The user of the request ``number`` has left: no answer is wanted."""

    number: Natural


class UserReply(Message, frozen=True):
    """The answer to the request ``number``."""

    number: Natural
    body: bytes


# --- coupled domains ----------------------------------------------------------------------


class BetweenDomains(Message, frozen=True):
    """A message about the jobs of a group (``coupled.mail``), from one controller to that
    of another domain."""

    data: bytes


AnyMessage: TypeAlias = (
    Hello
    | Welcome
    | Refused
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
