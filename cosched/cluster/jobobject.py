"""Defines the job object: everything that a node must have to start its part of a job."""

from __future__ import annotations

import msgspec

from cosched.core.errors import CoschedError

#: The longest job object, in bytes.
LONGEST_OBJECT = 16 << 20


class JobObject(msgspec.Struct, frozen=True, array_like=True):
    """One start of a job, the same for all its nodes.

    name: unique, for the PMI. counts: the tasks on each node, by place. pmi: pmi1, pmix or
    none; pmix_library: the library of the job's own MPI. bind: whether tasks are bound to
    their CPUs. error: empty for the same file as output. grace_s: between SIGTERM and
    SIGKILL.
    """

    name: str
    uid: int
    gid: int
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


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(JobObject)


def encode_object(job: JobObject) -> bytes:
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


def cut(data: bytes, chunk_bytes: int) -> list[bytes]:
    """Returns the chunks of an object, at least one."""
    return [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)] or [b""]
