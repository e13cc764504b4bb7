"""Defines the job object: everything that a node must have to start its part of a job.

It is the same for all nodes of the job (section 5), live and emulated. It travels with a
proof for each node (``seal``).
"""

from __future__ import annotations

import msgspec

from cosched.core.bounds import (
    GroupId,
    Limit,
    Name,
    Natural,
    Positive,
    Seconds,
    Slots,
    Umask,
    UserId,
)
from cosched.core.cluster.startup.questions import Command, Spawn
from cosched.core.decoding import MessagePackDecoder
from cosched.core.errors import CoschedError

#: The bytes of the object for each node, if that has fewer than 128 tasks: their number.
COUNT_BYTES = 1
#: The longest job object, in bytes.
LONGEST_OBJECT = 16 << 20
_NO_INPUT = "/dev/null"


class JobObject(msgspec.Struct, frozen=True, array_like=True):
    """One start of a job, the same for all its nodes."""

    name: Name  #: unique, for the PMI
    uid: UserId  #: the job's user
    gid: GroupId  #: the user's group
    argv: tuple[str, ...]  #: the program and its arguments
    environ: dict[str, str]  #: variables of all tasks
    cwd: str  #: the working directory
    umask: Umask  #: the file mode mask of the tasks
    counts: tuple[Slots, ...]  #: the tasks on each node, by place
    pmi: Name  #: pmi1, pmi1-long, pmix or none
    pmix_library: str  #: the library of the job's own MPI
    bind: bool  #: whether tasks are bound to their CPUs
    input: str  #: a path, or - for what its user gives
    output: str  #: a path
    error: str  #: empty for the same file as output
    label: bool  #: whether each line of output begins with its rank
    grace_s: Seconds  #: between SIGTERM and SIGKILL
    jobs_per_node: Positive = 1  #: how many jobs may share a node now
    spawned: Spawn | None = None  #: the request for this world; None: the job was submitted
    limits: dict[str, Limit] = {}  #: soft limits of the tasks, by name
    malleable: bool = False  #: whether its size may change while it runs
    #: The part that it has of each node, by place; (): whole nodes.
    parts: tuple[Slots, ...] = ()
    alone: bool = False  #: whether no other job may have its slots
    cpus: Natural = 0  #: slots that it has on each node; 0: one for each task
    script: str = ""  #: its batch script, which runs in place of ``argv[0]``; empty: none

    @property
    def commands(self) -> tuple[Command, ...]:
        """The programs, in the order of their ranks."""
        if self.spawned is not None:
            return self.spawned.commands
        return (Command(self.argv, sum(self.counts)),)


class WorldObject(msgspec.Struct, frozen=True, array_like=True):
    """A spawned world, for nodes that have the object of its job."""

    counts: tuple[Slots, ...]  #: the tasks on each of its nodes, by place
    spawned: Spawn  #: the request for the world

    def complete(self, job: JobObject) -> JobObject:
        """Returns the object of the world, given that of its job."""
        return msgspec.structs.replace(
            job, counts=self.counts, input=_NO_INPUT, spawned=self.spawned
        )


_encoder = msgspec.msgpack.Encoder()
_decoder: MessagePackDecoder[JobObject] = MessagePackDecoder(
    JobObject, "a job object", LONGEST_OBJECT
)
_world_decoder: MessagePackDecoder[WorldObject] = MessagePackDecoder(
    WorldObject, "a spawned world", LONGEST_OBJECT
)


def encode_object(job: JobObject | WorldObject) -> bytes:
    """Returns the object as bytes. Raises CoschedError if it is too large."""
    data = _encoder.encode(job)
    if len(data) > LONGEST_OBJECT:
        raise CoschedError(
            f"the job: its arguments and environment have {len(data)} bytes, more "
            f"than {LONGEST_OBJECT}; pass data in a file"
        )
    return data


def decode_object(data: bytes) -> JobObject:
    """Returns the object. Raises Malformed for bytes that are none."""
    return _decoder.decode(data)


def decode_world(data: bytes) -> WorldObject:
    """Returns the object of a spawned world. Raises Malformed for other bytes."""
    return _world_decoder.decode(data)


def cut(data: bytes, chunk_bytes: int) -> list[bytes]:
    """Returns the chunks of an object, at least one."""
    return [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)] or [b""]
