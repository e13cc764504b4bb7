"""Packs what a coupled domain remembers into bytes, and reads it back."""

from __future__ import annotations

from typing import Any

import msgspec

from cosched.core.cluster.coupling.state import Dates, Past, Stage, State, Turn
from cosched.core.decoding import MessagePackDecoder, convert


class Snapshot(msgspec.Struct):
    """A state with the time of the wall clock at which it was packed."""

    wall_ns: int  #: when it was packed, ns since 1970
    state: State  #: all that must be kept


_decoder: MessagePackDecoder[Snapshot] = MessagePackDecoder(
    Snapshot, "the state of a coupling"
)


class _Plain(msgspec.Struct):
    """A snapshot of any version."""

    wall_ns: int
    state: dict[str, Any]


_plain_decoder: MessagePackDecoder[_Plain] = MessagePackDecoder(
    _Plain, "the state of a coupling"
)


def pack(state: State, wall_ns: int) -> bytes:
    """Returns the bytes of a state."""
    return msgspec.msgpack.encode(Snapshot(wall_ns, state))


def unpack(data: bytes) -> Snapshot:
    """Returns the snapshot in ``data``. Raises Malformed if there is none."""
    return _decoder.decode(data)


def upgraded(data: bytes) -> bytes:
    """Returns a snapshot of version 1 in the present form. There all fields of a member
    stood side by side. Raises Malformed."""
    plain = _plain_decoder.decode(data)
    kind = dict[int, dict[str, Any]]
    members: dict[int, dict[str, Any]] = convert(
        plain.state.get("members"), kind, "members"
    )
    for member in members.values():
        for name, part in (("turn", Turn), ("dates", Dates), ("past", Past)):
            known = [field for field in part.__struct_fields__ if field in member]
            member[name] = {field: member.pop(field) for field in known}
        past = member["past"]
        runs = member.get("stage") == Stage.RUNNING.value
        if runs or past.get("went") or past.get("alone"):
            past["began"] = True  # some have not stored that
    plain.state["members"] = members
    return msgspec.msgpack.encode(plain)
