"""Packs what a coupled domain remembers into bytes, and reads it back."""

from __future__ import annotations

import msgspec

from cosched.core.cluster.coupling.state import State
from cosched.core.decoding import MessagePackDecoder


class Snapshot(msgspec.Struct):
    """A state with the time of the wall clock at which it was packed."""

    wall_ns: int
    state: State


_decoder: MessagePackDecoder[Snapshot] = MessagePackDecoder(
    Snapshot, "the state of a coupling"
)


def pack(state: State, wall_ns: int) -> bytes:
    """Returns the bytes of a state."""
    return msgspec.msgpack.encode(Snapshot(wall_ns, state))


def unpack(data: bytes) -> Snapshot:
    """Returns the snapshot in ``data``. Raises Malformed if there is none."""
    return _decoder.decode(data)
