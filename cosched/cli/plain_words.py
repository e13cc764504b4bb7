"""Reads plain command lines: each word by itself, without click.

A command that starts or sends a job may not wait for the library that knows help, mistakes
and rare options. So a command line that is not plain is left to that library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cosched.core.decoding import parse_integer
from cosched.core.errors import CoschedError
from cosched.core.units import LENGTH_MAX_NS, parse_run_time

#: Reads the value of an option. Raises CoschedError for a bad one.
Reader = Callable[[str], Any]
_MOST = (1 << 31) - 1


def count(text: str) -> int:
    """Reads a number from 1 on."""
    return parse_integer(text, "", 1, _MOST)


def run_time(text: str) -> int:
    """Reads the longest time of a job, in nanoseconds."""
    time_ns = parse_run_time(text)
    if not 0 < time_ns <= LENGTH_MAX_NS:
        raise CoschedError(f"{text}: is no run time of a job")
    return time_ns


class PlainWords:
    """The options of a command that may stand in a plain line.

    readers: by the name of the field, the reader of the value; None: a flag.
    words: by the field, how the option is written if not like its field.
    """

    def __init__(
        self,
        readers: Mapping[str, Reader | None],
        words: Mapping[str, Sequence[str]],
    ) -> None:
        self._readers = readers
        self._fields = {
            word: name
            for name in readers
            for word in words.get(name, ("--" + name.replace("_", "-"),))
        }

    def read(self, line: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
        """Returns the given options by field, and the program with its arguments; None for
        a line that is not plain, has a mistake, or names no program."""
        found: dict[str, Any] = {}
        rest = list(line)
        while rest and rest[0].startswith("-") and rest[0] != "--":
            name = self._fields.get(rest.pop(0))
            if name is None:
                return None
            reader = self._readers[name]
            if reader is None:
                found[name] = True
                continue
            try:
                found[name] = reader(rest.pop(0))
            except (CoschedError, IndexError):
                return None
        argv = tuple(rest[1:] if rest[:1] == ["--"] else rest)
        return (found, argv) if argv else None
