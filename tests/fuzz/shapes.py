"""Draws plain values that fit a type of msgspec, and spoils them.

A value is made of what MessagePack and JSON have: lists, mappings, numbers, text and bytes.
So a struct becomes a list or a mapping, with its tag, as its encoder would write it. A
spoiled value has a wrong part somewhere: another type, a number at or beyond an edge, a
name with control characters, a list that is too long or too short.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
from msgspec import inspect

NUMBERS = (
    -1,
    0,
    1,
    2,
    255,
    256,
    (1 << 16) - 1,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 62) - 1,
    1 << 62,
    (1 << 63) - 1,
    (1 << 64) - 1,
    -(1 << 31),
    -(1 << 63),
)
WORDS = (
    "",
    "n1",
    "n2",
    "controller",
    "../../etc/passwd",
    "\x1b[31m\nERROR forged line",
    "a" * 5000,
    "siblings",
    "root",
    "slots",
    "running",
    "ended",
    "\u2028",
    "größe",
)
OTHERS: tuple[Any, ...] = (None, True, -1, 1.5, "x", b"x", [], {}, [[]], {"a": 1})
MOST_DEPTH = 8
#: The bytes of most messages at most.
LONGEST = 20_000


class Shapes:
    """Draws values. chance: its source of chance. words: text that some fields need."""

    def __init__(self, chance: random.Random, words: tuple[str, ...] = ()) -> None:
        self.chance = chance
        self._words = (*words, *WORDS)
        self._types: dict[Any, Any] = {}

    def fitting(self, kind: Any) -> Any:
        """Returns a value that fits a type, unless a check behind the type refuses it."""
        if kind not in self._types:
            self._types[kind] = inspect.type_info(kind)
        return self._draw(self._types[kind], 0)

    def spoiled(self, kind: Any) -> Any:
        """Returns a value that fits a type but for one to three of its parts."""
        value = self.fitting(kind)
        for _ in range(self.chance.randint(1, 3)):
            value = self.spoil(value)
        return value

    def spoil(self, value: Any) -> Any:
        """Returns a copy of a plain value with one wrong part."""
        chance = self.chance
        if isinstance(value, list) and value and chance.random() < 0.8:
            copy = list(value)
            place = chance.randrange(len(copy))
            how = chance.random()
            if how < 0.75:
                copy[place] = self.spoil(copy[place])
            elif how < 0.85:
                del copy[place]
            elif how < 0.95:
                copy.insert(place, chance.choice(OTHERS))
            else:
                copy = copy * chance.choice((2, 100, 3000))
            return copy
        if isinstance(value, dict) and value and chance.random() < 0.8:
            key = chance.choice(list(value))
            rest = {k: v for k, v in value.items() if k != key}
            how = chance.random()
            if how < 0.8:
                return {**value, key: self.spoil(value[key])}
            return rest if how < 0.9 else {**rest, chance.choice(self._words): value[key]}
        if isinstance(value, int) and chance.random() < 0.7:
            return chance.choice(NUMBERS)
        if isinstance(value, str) and chance.random() < 0.6:
            return chance.choice(self._words)
        if isinstance(value, bytes) and chance.random() < 0.6:
            return spoiled_bytes(chance, value)
        if chance.random() < 0.1:
            return nested(chance.choice((10, 1000)))
        return chance.choice((*OTHERS, *NUMBERS))

    def _draw(self, info: Any, depth: int) -> Any:
        chance = self.chance
        match info:
            case inspect.IntType():
                return self._integer(info)
            case inspect.FloatType():
                return chance.choice((0.0, 0.1, 1.0, 1e308, -1.0))
            case inspect.BoolType():
                return chance.random() < 0.5
            case inspect.NoneType():
                return None
            case inspect.StrType():
                return chance.choice(self._words)
            case inspect.BytesType():
                return chance.randbytes(chance.choice((0, 1, 16, 300)))
            case inspect.LiteralType():
                return chance.choice(info.values)
            case inspect.EnumType():
                return chance.choice([each.value for each in info.cls])
            case inspect.UnionType():
                return self._draw(chance.choice(info.types), depth + 1)
            case inspect.TupleType():
                return [self._draw(each, depth + 1) for each in info.item_types]
            case inspect.VarTupleType() | inspect.ListType() | inspect.FrozenSetType():
                length = 0 if depth > MOST_DEPTH else chance.choice((0, 1, 1, 2, 3))
                return [self._draw(info.item_type, depth + 1) for _ in range(length)]
            case inspect.DictType():
                length = 0 if depth > MOST_DEPTH else chance.choice((0, 1, 2))
                return {
                    self._draw(info.key_type, depth + 1): self._draw(
                        info.value_type, depth + 1
                    )
                    for _ in range(length)
                }
            case inspect.StructType() | inspect.DataclassType():
                return self._struct(info, depth)
        return chance.choice(OTHERS)

    def _integer(self, info: inspect.IntType) -> int:
        least = -5 if info.ge is None else info.ge
        most = (1 << 62) - 1 if info.le is None else info.le
        most = most if info.lt is None else info.lt - 1
        if self.chance.random() < 0.6:
            return max(least, min(self.chance.choice((0, 1, 1, 2, 3)), most))
        fitting = [number for number in NUMBERS if least <= number <= most]
        return self.chance.choice(fitting or [least])

    def _struct(self, info: Any, depth: int) -> Any:
        values = {
            field.encode_name: self._draw(field.type, depth + 1) for field in info.fields
        }
        config = getattr(info.cls, "__struct_config__", None)
        tag = None if config is None else config.tag
        if config is not None and config.array_like:
            return [*([] if tag is None else [tag]), *values.values()]
        return values if tag is None else {config.tag_field or "type": tag, **values}


def nested(depth: int) -> Any:
    """Returns a list in a list in a list."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def spoiled_bytes(chance: random.Random, data: bytes) -> bytes:
    """Returns bytes that are cut, longer, changed, or no UTF-8."""
    how = chance.randrange(5)
    place = chance.randrange(len(data) + 1)
    if how == 0:
        return data[:place]
    if how == 1:
        return data + chance.randbytes(chance.choice((1, 100)))
    if how == 2:
        return data[:place] + b"\xff" + data[place:]
    if how == 3:
        return chance.randbytes(len(data))
    return data[:place] + chance.randbytes(1) + data[place + 1 :]


def packed(chance: random.Random, value: Any) -> bytes:
    """Returns a value as MessagePack; now and then its bytes are spoiled, too."""
    try:
        data = msgspec.msgpack.encode(value)
    except (OverflowError, ValueError, RecursionError, msgspec.MsgspecError):
        data = b"\xdc\xff\xff" * chance.choice((1, 5000))  # no encoder writes this
    data = _shortened(chance, data)
    return spoiled_bytes(chance, data) if chance.random() < 0.2 else data


def _shortened(chance: random.Random, data: bytes) -> bytes:
    """Returns the data; few messages are long, since they would keep all others waiting."""
    return data if chance.random() < 0.002 else data[:LONGEST]


def as_json(chance: random.Random, value: Any) -> bytes:
    """Returns a value as JSON on one line; now and then its bytes are spoiled, too."""
    try:
        data = msgspec.json.encode(value)
    except (OverflowError, ValueError, RecursionError, msgspec.MsgspecError):
        data = b"[" * chance.choice((1, 50_000)) + b"9" * chance.choice((1, 6000))
    data = _shortened(chance, data)
    if chance.random() < 0.25:
        data = spoiled_bytes(chance, data)
    return data.replace(b"\n", b" ") + b"\n"
