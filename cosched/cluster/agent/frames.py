"""Defines the messages between an agent and the stewards of its jobs, and carries them over
a stream socket: each is MessagePack behind its length (4 bytes). Also defines the requests
of the agent to the nursery, which forks the stewards."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from cosched.cluster.messages import LONGEST, Failure
from cosched.core.bounds import (
    GroupId,
    Limit,
    Name,
    Natural,
    Seconds,
    Slots,
    Stream,
    Umask,
    UserId,
)
from cosched.core.cluster.coupling.mate_messages import Addresses
from cosched.core.cluster.startup.questions import Command, Question, RootAnswer
from cosched.core.decoding import Malformed, MessagePackDecoder

_LENGTH = struct.Struct("!I")
_READ_BYTES = 1 << 18


class Frame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The base of all frames."""


# --- from the agent -----------------------------------------------------------------------


class Prepare(Frame, frozen=True):
    """Make the tasks of the job, waiting at their gates. The first frame.

    world: 0, or which of the worlds that the job spawned. given: values that a spawned
    world can read. CPUs: each task's CPUs; empty: any. counts: the number of tasks on
    each node, by place. hosts: the nodes' names, by place. topology: a file that may be
    there. limits: soft limits of the tasks, by name.
    """

    name: Name
    uid: UserId
    gid: GroupId
    world: Slots
    commands: tuple[Command, ...]
    given: dict[str, str]
    environ: dict[str, str]
    cwd: str
    umask: Umask
    place: Slots
    hosts: tuple[Name, ...]
    counts: tuple[Slots, ...]
    cpus: tuple[tuple[Slots, ...], ...]
    pmi: Name
    pmix_library: str
    directory: str
    topology: str
    input: str
    output: str
    error: str
    label: bool
    grace_s: Seconds
    limits: dict[str, Limit] = {}


class Go(Frame, frozen=True):
    """Open the gates. mates: domain and address of each job that begins with this one."""

    mates: Addresses = ()


class DeliverTables(Frame, frozen=True):
    """The tables of all nodes, by place, for the oldest open exchange."""

    tables: tuple[bytes, ...]


class EndTasks(Frame, frozen=True):
    """End the tasks: SIGTERM, and SIGKILL after the grace. direct: the tree is broken, so
    credit may never come: output without credit is lost."""

    reason: str
    direct: bool = False


class WriteOutput(Frame, frozen=True):
    """Write what tasks of the node ``place`` of a world wrote (only at the job's root)."""

    world: Slots
    place: Slots
    stream: Stream
    data: bytes


class AddCredit(Frame, frozen=True):
    """So many bytes of this node's output are written."""

    written: Natural


class WriteInput(Frame, frozen=True):
    """Write this into the standard input of rank 0 (only at the root). last: end it."""

    data: bytes
    last: bool


class TaskAnswered(Frame, frozen=True):
    """The answer to the question ``number``."""

    number: Natural
    answer: RootAnswer


# --- from the steward ---------------------------------------------------------------------


class TasksWait(Frame, frozen=True):
    """All tasks wait at their gates."""


class CannotStart(Frame, frozen=True):
    """The tasks cannot start. No task has begun. again: another start may succeed."""

    reason: str
    again: bool = False


class TableReady(Frame, frozen=True):
    """This node's table of the next exchange."""

    table: bytes


class TasksWrote(Frame, frozen=True):
    """Bytes that tasks of this node wrote."""

    stream: Stream
    data: bytes


class OutputWritten(Frame, frozen=True):
    """So many bytes of the node ``place`` of a world are written (only at the job's
    root)."""

    world: Slots
    place: Slots
    written: Natural


class OutputLost(Frame, frozen=True):
    """The job's output is incomplete (only at the job's root). reason: one line."""

    reason: str


class InputWritten(Frame, frozen=True):
    """So many bytes of input are written. open: whether rank 0 takes more."""

    written: Natural
    open: bool


class TaskAsked(Frame, frozen=True):
    """A task asks the job's root. number: the question's, on this node."""

    number: Natural
    question: Question


class TaskEndedBadly(Frame, frozen=True):
    """A task failed; the others still run."""

    failure: Failure


class TasksEnded(Frame, frozen=True):
    """All tasks and their descendants are gone, and what they wrote was sent. The last
    frame, but for ``OutputWritten`` at the root."""


AnyFrame: TypeAlias = (
    Prepare
    | Go
    | DeliverTables
    | EndTasks
    | WriteOutput
    | AddCredit
    | WriteInput
    | TaskAnswered
    | TasksWait
    | CannotStart
    | TableReady
    | TasksWrote
    | OutputWritten
    | InputWritten
    | OutputLost
    | TaskAsked
    | TaskEndedBadly
    | TasksEnded
)


# --- from the agent to the nursery --------------------------------------------------------


class MakeSteward(Frame, frozen=True):
    """Fork the steward ``number`` for the socket that comes with this. limit_s: how long it
    may take to end when the agent has ended."""

    number: Natural
    limit_s: Seconds


class KillSteward(Frame, frozen=True):
    """Kill the steward ``number``, if it still runs."""

    number: Natural


class WriteTopology(Frame, frozen=True):
    """Fork a process that writes the node's topology into a file."""

    path: bytes


Request: TypeAlias = MakeSteward | KillSteward | WriteTopology

_encoder = msgspec.msgpack.Encoder()
_decoder: MessagePackDecoder[AnyFrame] = MessagePackDecoder(AnyFrame, "a frame", LONGEST)
_request_decoder: MessagePackDecoder[Request] = MessagePackDecoder(
    Request, "a request to the nursery", LONGEST
)


def encode_request(request: Request) -> bytes:
    """Returns a request to the nursery; its socket keeps the bounds of messages."""
    return _encoder.encode(request)


def decode_request(data: bytes) -> Request:
    """Returns the agent's request. Raises Malformed for bytes that are none."""
    return _request_decoder.decode(data)


def encode_frame(frame: Frame) -> bytes:
    """Returns the frame with its length in front."""
    data = _encoder.encode(frame)
    return _LENGTH.pack(len(data)) + data


class FrameReader:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[AnyFrame]:
        """Adds bytes and yields the frames that are complete. Raises Malformed for bytes
        that are no frame."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > LONGEST:
                raise Malformed(f"a frame of {length} bytes is longer than {LONGEST}")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield _decoder.decode(body)


def receive_frame(connection: socket.socket, reader: FrameReader) -> list[AnyFrame] | None:
    """Reads once from a socket; returns the complete frames, or None at its end."""
    try:
        data = connection.recv(_READ_BYTES)
    except ConnectionError:  # the other end was killed
        return None
    return list(reader.feed(data)) if data else None
