"""Reads the values of options from text: times, sizes, lists, words of a set."""

from __future__ import annotations

import enum
import math
import os
import shlex
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.rates import format_rate, parse_rate
from cosched.core.units import (
    LENGTH_MAX_NS,
    NS_PER_S,
    format_duration,
    parse_bytes,
    parse_duration,
    parse_run_time,
)

Parser = Callable[[str, str], Any]


class Parsed(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A value that a function reads from the text and the option's name.

    name: what ``--help`` shows for the value. write: returns the text of a value.
    """

    def __init__(self, name: str, parse: Parser, write: Callable[[Any], str] = str) -> None:
        self.name = name
        self._parse = parse
        self._write = write

    def show(self, value: Any) -> str:
        """Returns the text of a default."""
        return value if isinstance(value, str) else self._write(value)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Returns the value; raises BadParameter or CoschedError for a bad text."""
        if not isinstance(value, str):
            return value
        return self._parse(value, param.opts[0] if param is not None else self.name)


def _run_time(text: str, _what: str) -> int:
    try:
        time_ns = parse_run_time(text)
    except CoschedError as error:
        raise click.BadParameter(f"{error}.") from None
    if not 0 < time_ns <= LENGTH_MAX_NS:
        message = f"'{text:.40}' is not more than 0 and at most a year."
        raise click.BadParameter(message)
    return time_ns


def _shell_words(text: str, what: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise CoschedError(f"{what}: '{text}': {error}") from error


def in_seconds(parse: Parser) -> Parser:
    """Returns a parser whose times are seconds, not nanoseconds."""
    return lambda text, what: parse(text, what) / NS_PER_S


#: A time such as 500ms or 2h, in nanoseconds.
TIME = Parsed("TIME", parse_duration, format_duration)
#: The same in seconds.
SECONDS = Parsed("TIME", in_seconds(parse_duration))
#: A run time as batch systems write it, such as 2:00:00, in nanoseconds.
RUN_TIME = Parsed("TIME", _run_time)
#: The same in seconds.
RUN_SECONDS = Parsed("TIME", in_seconds(_run_time))
#: A size such as 8G, in bytes.
SIZE = Parsed("SIZE", parse_bytes)
#: The rate of a link such as 100mbit or 1gbit, in bits a second.
RATE = Parsed("RATE", parse_rate, format_rate)
#: A command, split into words as a shell does.
COMMAND = Parsed("COMMAND", _shell_words)


def _node_range(text: str, what: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    least = parse_integer(first, what, 1, _NODES_MOST)
    most = parse_integer(last, what, 1, _NODES_MOST) if dash else least
    if least > most:
        raise CoschedError(f"{what} {text}: the first number must not be the larger one")
    return least, most


#: Nodes from A to B.
NODES = Parsed("A-B", _node_range)
_NODES_MOST = 1 << 20


def several(name: str, one: Parser) -> Parsed:
    """Returns a list with commas between its values; each counts once."""

    def parse(text: str, what: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(one(word.strip(), what) for word in text.split(",")))

    return Parsed(name, parse, lambda values: ",".join(map(str, values)))


def some_of(known: Sequence[str], name: str = "A,B") -> Parsed:
    """Returns a list of known words."""

    def one(word: str, _what: str) -> str:
        if word not in known:
            raise click.BadParameter(f"'{word}' is none of {', '.join(known)}.")
        return word

    return several(name, one)


def _yes_or_no(word: str, _what: str) -> bool:
    if word not in ("yes", "no"):
        raise click.BadParameter(f"'{word:.40}' is neither yes nor no.")
    return word == "yes"


YES_OR_NO = Parsed("yes|no", _yes_or_no, lambda value: "yes" if value else "no")


def whole(least: int, most: int | None = None) -> Parser:
    """Returns a parser of whole numbers."""
    highest = (1 << 63) - 1 if most is None else most

    def parse(word: str, what: str) -> int:
        if not is_whole(word, least, highest):
            raise click.BadParameter(_not_whole(word, least, most))
        return parse_integer(word, what, least, highest)

    return parse


def _not_whole(word: str, least: float | None, most: float | None) -> str:
    if least is None:
        kind = f"of {most} or less"
    else:
        kind = f"of {least} or more" if most is None else f"from {least} to {most}"
    return f"'{word:.40}' is not a whole number {kind}."


class Whole(click.IntRange):
    """A whole number within bounds."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Returns the number; raises BadParameter for another text."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(_not_whole(str(value), self.min, self.max), param, ctx)


#: No option means something by a number nearer to 0, or by a larger one. Times that are
#: computed with them would have no number.
_NUMBER_LEAST = 1e-9
_NUMBER_MOST = 1e12


class Number(click.FloatRange):
    """A number within bounds: neither "nan", which each comparison would let pass, nor
    one without a use such as "inf" or 1e-320."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Returns the number; raises BadParameter for another text."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"'{value}' is not a finite number.", param, ctx)
        if number and not _NUMBER_LEAST <= abs(number) <= _NUMBER_MOST:
            bounds = f"{_NUMBER_LEAST:g} to {_NUMBER_MOST:g}"
            self.fail(f"'{value:.40}' is not a number from {bounds}.", param, ctx)
        return number


class EnumChoice(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """A word that names a member of an enumeration; the value is the member."""

    def __init__(self, kind: type[enum.Enum], *without: enum.Enum) -> None:
        super().__init__([each.value for each in kind if each not in without])
        self.kind = kind

    def show(self, value: Any) -> str:
        """Returns the word of a default."""
        return str(self.kind(value).value)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Returns the member; raises BadParameter for another word."""
        if isinstance(value, self.kind):
            return value
        return self.kind(super().convert(value, param, ctx))


class ExistingPath(click.Path):  # type: ignore[type-arg,unused-ignore]
    """The path of a file or a folder that must be there. A shell completes it.

    remedy: the end of the error's line, which advises the user. kind: ``file_okay=False``
    for a folder, ``dir_okay=False`` for a file.
    """

    def __init__(self, remedy: str, **kind: bool) -> None:
        super().__init__(path_type=Path, **kind)
        self._remedy = remedy

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Returns the path; raises CoschedError if it is missing or of the other kind."""
        problem = self._problem(Path(value))
        if problem:
            raise CoschedError(f"{value}: {problem}; {self._remedy}")
        return super().convert(value, param, ctx)

    def _problem(self, path: Path) -> str:
        try:
            is_folder = stat.S_ISDIR(os.stat(path).st_mode)
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        if is_folder and not self.dir_okay:
            return "is a folder"
        if not is_folder and not self.file_okay:
            return "is not a folder"
        return "" if os.access(path, os.R_OK) else "cannot be read: Permission denied"


#: A file with the settings of a domain.
DOMAIN_TOML = ExistingPath("name a domain.toml", dir_okay=False)
