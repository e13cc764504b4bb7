"""Packs what a coupled domain remembers into bytes, and reads it back."""

from __future__ import annotations

import msgspec

from cosched.core.cluster.coupling.state import State
from cosched.core.errors import CoschedError


class Snapshot(msgspec.Struct):
    """A state with the time of the wall clock at which it was packed."""

    wall_ns: int
    state: State


_decoder = msgspec.msgpack.Decoder(Snapshot)


def pack(state: State, wall_ns: int) -> bytes:
    """Returns the bytes of a state."""
    return msgspec.msgpack.encode(Snapshot(wall_ns, state))


def unpack(data: bytes) -> Snapshot:
    """Returns the snapshot in ``data``. Raises CoschedError if there is none."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise CoschedError(f"the state of the coupling is damaged: {error}") from error
