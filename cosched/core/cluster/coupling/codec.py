"""What domains say to each other as JSON, one object a line (docs/dev/formats.md).

    {"type": "getMateJobId", "group": "g1"}
    {"type": "mateJobId", "number": 17}

A line holds a question (``Request``) or its answer (``Answer``), by the paper's names
where it has some. Keys are all there, none else; a field that may be unknown is null.
``decode`` refuses everything else with one line, so that a domain can say what its mate
sent and go on. Pure: who sends lines where is the driver's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

from cosched.core.cluster.coupling.protocol import (
    Answer,
    Done,
    GetMateJobId,
    GetMateStatus,
    MateJobId,
    MateStarted,
    MateState,
    MateStatus,
    PromiseMate,
    ReleaseMate,
    Request,
    StartMate,
    TryHoldMate,
    TryStartMate,
)
from cosched.core.errors import CoschedError

Message: TypeAlias = "Request | Answer"

#: No message is as long; a line beyond it is not read to its end.
LONGEST = 4096
#: Times and job numbers fit into eight bytes, signed, everywhere.
GREATEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Field:
    """fits: whether a JSON value will do. what: what is wanted, for people."""

    fits: Callable[[object], bool]
    what: str


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= GREATEST


_WHOLE = _Field(_is_whole, "a whole number, 0 or more")
_WHOLE_OR_NULL = _Field(lambda value: value is None or _is_whole(value), "that, or null")
_NAME = _Field(lambda value: isinstance(value, str) and 0 < len(value) <= 255, "a name")
_YES = _Field(lambda value: isinstance(value, bool), "true or false")
_STATES = frozenset(state.value for state in MateState)
_STATE = _Field(
    lambda value: isinstance(value, str) and value in _STATES,
    "one of " + ", ".join(state.value for state in MateState),
)

_SHAPES: Mapping[str, tuple[type[Any], Mapping[str, _Field]]] = MappingProxyType(
    {
        "getMateJobId": (GetMateJobId, {"group": _NAME}),
        "getMateStatus": (GetMateStatus, {"number": _WHOLE}),
        "tryStartMate": (TryStartMate, {"number": _WHOLE}),
        "startJob": (StartMate, {"number": _WHOLE}),
        "tryHoldMate": (TryHoldMate, {"number": _WHOLE}),
        "releaseMate": (ReleaseMate, {"number": _WHOLE}),
        "promiseMate": (PromiseMate, {"number": _WHOLE, "by_ns": _WHOLE}),
        "mateStarted": (MateStarted, {"group": _NAME, "since_ns": _WHOLE}),
        "mateJobId": (MateJobId, {"number": _WHOLE_OR_NULL}),
        "mateStatus": (MateStatus, {"state": _STATE, "since_ns": _WHOLE_OR_NULL}),
        "done": (Done, {"yes": _YES}),
    }
)
_NAMES = MappingProxyType({kind: name for name, (kind, _) in _SHAPES.items()})


def encode(message: Message) -> bytes:
    """The message as a line, its end included."""
    name = _NAMES[type(message)]
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    plain = {
        key: value.value if isinstance(value, Enum) else value
        for key, value in values.items()
    }
    return json.dumps({"type": name, **plain}, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message in a line. Raises CoschedError, in one line, for anything else."""
    if len(line) > LONGEST:
        raise CoschedError(f"message of {len(line)} bytes: want {LONGEST} at most")
    try:
        document = json.loads(line, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise CoschedError(f"message {_shown(line)} is not JSON") from error
    name = document.get("type") if isinstance(document, dict) else None
    if not isinstance(name, str) or name not in _SHAPES:
        raise CoschedError(
            f"message {_shown(line)} has no known type; want one of {', '.join(_SHAPES)}"
        )
    kind, shape = _SHAPES[name]
    values = {key: value for key, value in document.items() if key != "type"}
    for key in values:
        if key not in shape:
            raise CoschedError(f"message {name} has an unknown key '{_short(key)}'")
    for key, field in shape.items():
        if key not in values:
            raise CoschedError(f"message {name} has no '{key}'")
        if not field.fits(values[key]):
            raise CoschedError(f"message {name}: '{key}' is not {field.what}")
    if kind is MateStatus:
        values["state"] = MateState(values["state"])
    message: Message = kind(**values)
    return message


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _shown(line: bytes) -> str:
    return repr(_short(line.decode("utf-8", "replace")))


def _short(text: str) -> str:
    """At most 40 characters, none of which ends a line."""
    plain = "".join(char if char.isprintable() else "?" for char in text)
    return plain if len(plain) <= 40 else plain[:37] + "..."
