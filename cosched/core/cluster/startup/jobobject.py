"""Defines the job object: everything that a node must have to start its part of a job.

It is the same for all nodes of the job (section 5), live and emulated. It travels with a
proof for each node (``seal``).
"""

from __future__ import annotations

import msgspec

from cosched.core.bounds import GroupId, Limit, UserId
from cosched.core.cluster.startup.questions import Command, Spawn
from cosched.core.errors import CoschedError

#: The bytes of the object for each node, if that has fewer than 128 tasks: their number.
COUNT_BYTES = 1
#: The longest job object, in bytes.
LONGEST_OBJECT = 16 << 20
_NO_INPUT = "/dev/null"


class JobObject(msgspec.Struct, frozen=True, array_like=True):
    """One start of a job, the same for all its nodes.

    name: unique, for the PMI. counts: the tasks on each node, by place. pmi: pmi1,
    pmi1-long, pmix or none; pmix_library: the library of the job's own MPI. bind: whether
    tasks are bound to their CPUs. error: empty for the same file as output. grace_s:
    between SIGTERM and SIGKILL. jobs_per_node: how many jobs may share a node now.
    spawned: the request for this world, if it was spawned. limits: soft limits of the
    tasks, by name.
    """

    name: str
    uid: UserId
    gid: GroupId
    argv: tuple[str, ...]
    environ: dict[str, str]
    cwd: str
    umask: int
    counts: tuple[int, ...]
    pmi: str
    pmix_library: str
    bind: bool
    input: str
    output: str
    error: str
    label: bool
    grace_s: float
    jobs_per_node: int = 1
    spawned: Spawn | None = None
    limits: dict[str, Limit] = {}

    @property
    def commands(self) -> tuple[Command, ...]:
        """The programs, in the order of their ranks."""
        if self.spawned is not None:
            return self.spawned.commands
        return (Command(self.argv, sum(self.counts)),)


class WorldObject(msgspec.Struct, frozen=True, array_like=True):
    """A spawned world, for nodes that have the object of its job. counts: the tasks on each
    of its nodes, by place."""

    counts: tuple[int, ...]
    spawned: Spawn

    def complete(self, job: JobObject) -> JobObject:
        """Returns the object of the world, given that of its job."""
        return msgspec.structs.replace(
            job, counts=self.counts, input=_NO_INPUT, spawned=self.spawned
        )


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(JobObject)
_world_decoder = msgspec.msgpack.Decoder(WorldObject)


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
    """Returns the object. Raises CoschedError for bytes that are none."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise CoschedError(f"not a job object: {error}") from None


def decode_world(data: bytes) -> WorldObject:
    """Returns the object of a spawned world. Raises CoschedError for other bytes."""
    try:
        return _world_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise CoschedError(f"not a spawned world: {error}") from None


def cut(data: bytes, chunk_bytes: int) -> list[bytes]:
    """Returns the chunks of an object, at least one."""
    return [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)] or [b""]
