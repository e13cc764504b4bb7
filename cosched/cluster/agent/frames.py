"""Defines the messages between an agent and the stewards of its jobs, and carries them over
a stream socket: each is MessagePack behind its length (4 bytes). Also defines the requests
to the nursery of the agent, which forks the stewards."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from cosched.cluster.messages import LONGEST, Failure
from cosched.cluster.size_messages import PhaseTimes
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
from cosched.core.cluster.resizing.node_part import Answer as PartAnswer
from cosched.core.cluster.resizing.node_part import Order as PartOrder
from cosched.core.cluster.resizing.node_part import Sensed
from cosched.core.cluster.startup.questions import Command, Question, RootAnswer
from cosched.core.decoding import Malformed, MessagePackDecoder
from cosched.linux.system_text import environ_from_wire, from_wire, words_from_wire

_LENGTH = struct.Struct("!I")
_READ_BYTES = 1 << 18


class Frame(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The base of all frames."""


# --- from the agent -----------------------------------------------------------------------


class Prepare(Frame, frozen=True):
    """Make the tasks of the job, waiting at their gates. The first frame."""

    name: Name  #: the job's name, unique for this start
    uid: UserId  #: the job's user
    gid: GroupId  #: the user's group
    world: Slots  #: 0, or the number of a spawned world
    #: The programs, each with its ranks, in the order of the ranks.
    commands: tuple[Command, ...]
    #: Values that a spawned world can read, by key.
    given: dict[str, str]
    environ: dict[str, str]  #: variables of all tasks
    cwd: str  #: the job's working directory
    umask: Umask  #: the file mode mask of the tasks
    place: Slots  #: this node's number in the tree
    hosts: tuple[Name, ...]  #: the nodes' names, by place
    counts: tuple[Slots, ...]  #: the number of tasks on each node, by place
    cpus: tuple[tuple[Slots, ...], ...]  #: each task's CPUs; empty: any
    pmi: Name  #: pmi1, pmi1-long, pmix or none
    pmix_library: str  #: the path of the job's own libpmix; empty: none
    directory: str  #: for files of this start on this node
    topology: str  #: a file that may be there
    input: str  #: a path, or - for what its user gives
    output: str  #: the path of its output
    error: str  #: the path of its errors; empty: as output
    label: bool  #: whether each line of output begins with its rank
    grace_s: Seconds  #: between SIGTERM and SIGKILL
    limits: dict[str, Limit] = {}  #: soft limits of the tasks, by name
    script: str = ""  #: the batch script that the tasks run; empty: they run ``commands``

    def in_words(self) -> Prepare:
        """Returns the frame with programs, variables and paths as this process uses them,
        and not as wire text."""
        return replace(
            self,
            commands=tuple(map(_in_words, self.commands)),
            environ=environ_from_wire(self.environ),
            cwd=from_wire(self.cwd),
            pmix_library=from_wire(self.pmix_library),
            directory=from_wire(self.directory),
            topology=from_wire(self.topology),
            input=from_wire(self.input),
            output=from_wire(self.output),
            error=from_wire(self.error),
            script=from_wire(self.script),
        )


def _in_words(command: Command) -> Command:
    return replace(
        command,
        argv=words_from_wire(command.argv),
        cwd=from_wire(command.cwd),
        path=from_wire(command.path),
        environ=environ_from_wire(command.environ),
    )


class Go(Frame, frozen=True):
    """Open the gates."""

    mates: Addresses = ()  #: domain and address of each job that begins with this one


class DeliverTables(Frame, frozen=True):
    """The tables of all nodes, by place, for the oldest open exchange."""

    tables: tuple[bytes, ...]  #: the tables of all nodes, by place


class EndTasks(Frame, frozen=True):
    """End the tasks: SIGTERM, and SIGKILL after the grace."""

    reason: str  #: one line
    #: The tree is broken, so credit may never come: output without credit is lost.
    direct: bool = False


class StopTasks(Frame, frozen=True):
    """Stop all processes of the tasks: the job is suspended."""


class RunTasks(Frame, frozen=True):
    """Let all processes of the tasks run again."""


class WriteOutput(Frame, frozen=True):
    """Write what tasks of the node ``place`` of a world wrote (only at the job's root)."""

    world: Slots  #: 0, or the number of a spawned world
    place: Slots  #: the place of the node whose tasks wrote
    stream: Stream  #: standard output or standard error
    data: bytes  #: the bytes


class AddCredit(Frame, frozen=True):
    """Grants this node credit for output that the root has written."""

    written: Natural  #: bytes since the last such frame


class WriteInput(Frame, frozen=True):
    """Write this into the standard input of rank 0 (only at the root)."""

    data: bytes  #: the bytes
    last: bool  #: end it


class TaskAnswered(Frame, frozen=True):
    """The answer to the question ``number``."""

    number: Natural  #: the question's number
    answer: RootAnswer  #: the answer of the job's root


# --- between the agent and the keeper of a page -------------------------------------------


class KeepPage(Frame, frozen=True):
    """Keep the page of a malleable job. The first frame, in place of ``Prepare``."""

    uid: UserId  #: the job's user
    gid: GroupId  #: the user's group
    path: str  #: of the page
    place: Slots  #: of the node in the job
    host: Name  #: the node's name
    again: bool = False  #: the page is there: an earlier keeper of it was killed


class OrderPage(Frame, frozen=True):
    """Carry out an order of the job's root."""

    order: PartOrder  #: for the node's part of the agreement
    ranks: Slots  #: of the job on the node now


class PageReady(Frame, frozen=True):
    """The page is there: tasks may open it."""


class PageAnswered(Frame, frozen=True):
    """An answer of the page, for the job's root."""

    answer: PartAnswer | Sensed  #: what the keeper read
    times: PhaseTimes | None = None  #: of a change that is done


# --- from the steward ---------------------------------------------------------------------


class TasksWait(Frame, frozen=True):
    """All tasks wait at their gates."""


class CannotStart(Frame, frozen=True):
    """The tasks cannot start. No task has begun."""

    reason: str  #: one line
    again: bool = False  #: another start may succeed


class TableReady(Frame, frozen=True):
    """This node's table of the next exchange."""

    table: bytes  #: the values that this node's tasks have put


class TasksWrote(Frame, frozen=True):
    """Bytes that tasks of this node wrote."""

    stream: Stream  #: standard output or standard error
    data: bytes  #: the bytes


class TasksStopped(Frame, frozen=True):
    """All processes of the tasks are stopped."""

    problem: str = ""  #: why some may run on; empty: none does


class TasksRun(Frame, frozen=True):
    """All processes of the tasks run again."""


class OutputWritten(Frame, frozen=True):
    """Reports how much output of a node of a world is written (only at the job's root)."""

    world: Slots  #: 0, or the number of a spawned world
    place: Slots  #: the place of the node whose tasks wrote
    written: Natural  #: bytes since the last such frame


class OutputLost(Frame, frozen=True):
    """The job's output is incomplete (only at the job's root)."""

    reason: str  #: one line


class InputWritten(Frame, frozen=True):
    """Reports how much of the input rank 0 has."""

    written: Natural  #: bytes since the last such frame
    open: bool  #: whether rank 0 takes more


class TaskAsked(Frame, frozen=True):
    """A task asks the job's root."""

    number: Natural  #: the question's, on this node
    question: Question  #: for the job's root


class TaskEndedBadly(Frame, frozen=True):
    """A task failed; the others still run."""

    failure: Failure  #: the status and the reason


class TasksEnded(Frame, frozen=True):
    """All tasks and their descendants are gone, and what they wrote was sent. The last
    frame, but for ``OutputWritten`` at the root."""


AnyFrame: TypeAlias = (
    Prepare
    | Go
    | DeliverTables
    | EndTasks
    | StopTasks
    | RunTasks
    | WriteOutput
    | AddCredit
    | WriteInput
    | TaskAnswered
    | KeepPage
    | OrderPage
    | PageReady
    | PageAnswered
    | TasksWait
    | CannotStart
    | TableReady
    | TasksWrote
    | TasksStopped
    | TasksRun
    | OutputWritten
    | InputWritten
    | OutputLost
    | TaskAsked
    | TaskEndedBadly
    | TasksEnded
)


# --- from the agent to the nursery --------------------------------------------------------


class MakeSteward(Frame, frozen=True):
    """Fork the steward ``number`` for the socket that comes with this."""

    number: Natural  #: the nursery's number of the steward
    limit_s: Seconds  #: how long it may take to end when the agent has ended


class KillSteward(Frame, frozen=True):
    """Kill the steward ``number``, if it still runs."""

    number: Natural  #: the nursery's number of the steward


class WriteTopology(Frame, frozen=True):
    """Fork a process that writes the node's topology into a file."""

    path: bytes  #: the file's path


class RemoveTree(Frame, frozen=True):
    """Fork a process that removes a directory with all that a job's user made there."""

    path: bytes  #: the directory's path


Request: TypeAlias = MakeSteward | KillSteward | WriteTopology | RemoveTree

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
