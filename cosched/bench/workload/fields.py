"""Reads a TOML table and checks its keys and the types of their values.

A converter takes a TOML value and returns it in the needed type. For a wrong value it
raises Mismatch with a description of a right one: "a whole number from 1 to 8". ``Table``
turns that into one line with the place, the key and the value.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from cosched.core.errors import CoschedError

T = TypeVar("T")


class Mismatch(Exception):
    """A value of the wrong kind; ``str()`` describes a right one."""


class Table:
    """Typed look-ups in a TOML table; every error names place, key and remedy."""

    def __init__(
        self, table: Mapping[str, object], where: str, keys: Iterable[str]
    ) -> None:
        self.table = table
        self.where = where
        known = list(keys)
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
                hint = (
                    f"did you mean '{near[0]}'?"
                    if near
                    else f"the keys are {', '.join(known)}"
                )
                raise CoschedError(f"{where}: unknown key {_shown(key)}; {hint}")

    def get(self, key: str, convert: Callable[[object], T], default: T) -> T:
        return self.require(key, convert) if key in self.table else default

    def require(self, key: str, convert: Callable[[object], T]) -> T:
        if key not in self.table:
            raise CoschedError(f"{self.where}: key '{key}' is missing")
        try:
            return convert(self.table[key])
        except Mismatch as error:
            value = _shown(self.table[key])
            raise CoschedError(f"{self.where}: {key} = {value} is not {error}") from error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def text(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise Mismatch("a text")
    return value


def one_line(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise Mismatch("one line of text")
    return value


def words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise Mismatch(f"a command line ({error})") from error
    if not isinstance(value, list) or not all(
        isinstance(word, str) and "\0" not in word for word in value
    ):
        raise Mismatch("a string or a list of strings")
    return tuple(value)


def command(value: object) -> tuple[str, ...]:
    parts = words(value)
    if not parts or not parts[0]:
        raise Mismatch("a command: it is empty")
    return parts


def whole(least: int, most: int) -> Callable[[object], int]:
    def convert(value: object) -> int:
        if type(value) is not int or not least <= value <= most:
            raise Mismatch(f"a whole number from {least} to {most}")
        return value

    return convert


def seconds(least: float, most: float) -> Callable[[object], float]:
    def convert(value: object) -> float:
        wanted = f"a number of seconds from {least:g} to {most:.0f}"
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise Mismatch(wanted)
        if not least <= value <= most:
            raise Mismatch(wanted)
        return float(value)

    return convert


def environment(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Mismatch("a table of names and texts")
    for name, text in value.items():
        usable = isinstance(text, str) and "\0" not in text
        if not usable or not name or "=" in name or "\0" in name:
            raise Mismatch("a table of environment variables and their texts")
    return dict(value)


def table(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise Mismatch("a table")
    return value


def truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise Mismatch("true or false")
    return value


def table_list(value: object) -> Sequence[Mapping[str, object]]:
    if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
        raise Mismatch("a list of [[job]] tables")
    return value
