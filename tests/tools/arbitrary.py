"""Makes any values of the types of messages, and any plain values, for property tests."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect as kinds

NAMES = ("", "n1", "n2", "n3", "controller", "x", "siblings", "root", "running", "ended")
NUMBERS = (0, 1, 2, 3, 255, 1 << 20, (1 << 32) - 2, (1 << 43) - 1, (1 << 62) - 1)

#: Plain values as a decoder sees them.
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
    | st.binary(max_size=20) | st.sampled_from((*NAMES, *NUMBERS)),
    lambda inner: st.lists(inner, max_size=12)
    | st.dictionaries(st.text(max_size=8) | st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Returns values of a type, as a decoder could have made them."""
    return _values(kinds.type_info(kind))


def _values(info: kinds.Type) -> st.SearchStrategy[Any]:
    match info:
        case kinds.StructType(cls=cls, fields=fields):
            parts = {each.name: _values(each.type) for each in fields}
            return st.builds(cls, **parts)
        case kinds.UnionType(types=types):
            return st.one_of(*map(_values, types))
        case kinds.IntType(ge=least, le=most, lt=end):
            low = -2 if least is None else least
            high = most if most is not None else (1 << 62) - 1 if end is None else end - 1
            known = [number for number in NUMBERS if low <= number <= high]
            return st.sampled_from(known or [low]) | st.integers(low, min(high, low + 4))
        case kinds.StrType():
            return st.sampled_from(NAMES)
        case kinds.BytesType(min_length=least):
            return st.binary(min_size=least or 0, max_size=40)
        case kinds.BoolType():
            return st.booleans()
        case kinds.FloatType():
            return st.sampled_from((0.0, 0.5, 1e9))
        case kinds.NoneType():
            return st.none()
        case kinds.TupleType(item_types=items):
            return st.tuples(*map(_values, items))
        case kinds.VarTupleType(item_type=item):
            return st.lists(_values(item), max_size=3).map(tuple)
        case kinds.ListType(item_type=item):
            return st.lists(_values(item), max_size=3)
        case kinds.DictType(key_type=key, value_type=value):
            return st.dictionaries(_values(key), _values(value), max_size=2)
        case kinds.EnumType(cls=cls):
            return st.sampled_from(list(cls))
    raise TypeError(f"no values of {info}")


def packed(value: Any) -> bytes:
    """Returns a plain value as MessagePack; nothing for one that it cannot have."""
    try:
        return msgspec.msgpack.encode(value)
    except (ValueError, OverflowError):
        return b""


def jsoned(value: Any) -> bytes:
    """Returns a plain value as JSON, perhaps with bytes that are not UTF-8."""
    try:
        return msgspec.json.encode(value)
    except (ValueError, OverflowError):
        return b"\xff"
