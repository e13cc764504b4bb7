"""Parses and writes the kinds of values: TOML values in a file, texts in variables or
options.

A kind's ``parse`` takes either form and returns the typed value. It raises CoschedError
with the mistake and the right form. ``write`` returns the TOML value.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from cosched.core.config.mistakes import Invalid, Mistake, mistakes_under
from cosched.core.config.suggestions import suggest
from cosched.core.decoding import (
    is_whole,
    parse_address,
    parse_integer,
    parse_number,
    printable,
)
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S, format_duration, parse_bytes, parse_duration

AUTO = "auto"
OFF = "off"
_SWITCH = {
    **dict.fromkeys(("on", "yes", "true", "1"), True),
    **dict.fromkeys(("off", "no", "false", "0"), False),
}
_MOST = (1 << 63) - 1
#: The most characters of a wrong value in an error.
_SHOWN = 60

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class Kind(Struct, Generic[T], frozen=True):
    """One kind of value."""

    form: str  #: describes it to users
    parse: Callable[[Any], T]  #: returns the typed value of a raw one; raises CoschedError
    write: Callable[[T], Any]  #: returns the raw value of a typed one
    none: str | None = None  #: the word that is read as None; None: no word is

    def named(self, raw: Any, what: str) -> T:
        """Returns the typed value. what: names the setting in an error."""
        try:
            return self.parse(raw)
        except CoschedError as error:
            raise CoschedError(f"{what}: {error}") from None

    def text(self, value: T) -> str:
        """Returns the text that variables and options have for a value."""
        raw = self.write(value)
        return ("on" if raw else "off") if isinstance(raw, bool) else str(raw)


def shown(raw: Any) -> str:
    """Returns a value as an error shows it: short, and on one line."""
    text = f"'{printable(raw)}'" if isinstance(raw, str) else printable(str(raw))
    text = text.lower() if isinstance(raw, bool) else text
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def stripped(raw: Any, form: str) -> str:
    """Returns a text without the blanks around it. Raises CoschedError for another value.
    form: describes a right one."""
    if not isinstance(raw, str):
        raise CoschedError(f"{shown(raw)} is not {form}")
    return raw.strip()


def timed(parse: Callable[[str], T]) -> Callable[[Any], T]:
    """Returns the parser of a text with a unit of time."""

    def parsed(raw: Any) -> T:
        if isinstance(raw, (int, float)) and not isinstance(raw, bool):
            raise CoschedError(f'{raw} has no unit; write it like "{raw}s" or "{raw}ms"')
        return parse(stripped(raw, 'a duration; write it like "500ms"'))

    return parsed


# --- numbers --------------------------------------------------------------------------


def whole(least: int, most: int = _MOST) -> Kind[int]:
    """Returns the kind of whole numbers in a range."""
    bounds = f"of {least} or more" if most == _MOST else f"from {least} to {most}"
    form = f"a whole number {bounds}"

    def parse(raw: Any) -> int:
        if isinstance(raw, str) and is_whole(raw.strip()):
            raw = parse_integer(raw, "", 0, _MOST)
        if type(raw) is not int or not least <= raw <= most:
            raise CoschedError(f"{shown(raw)} is not {form}")
        return raw

    return Kind(form, parse, int)


def decimal(form: str, fits: Callable[[float], bool]) -> Kind[float]:
    """Returns the kind of those numbers that fit. form: describes them."""

    def parse(raw: Any) -> float:
        if isinstance(raw, str):
            raw = parse_number(raw, "", -1e300, 1e300)
        if not isinstance(raw, (int, float)) or isinstance(raw, bool) or not fits(raw):
            raise CoschedError(f"{shown(raw)} is not {form}")
        return float(raw)

    return Kind(form, parse, float)


def seconds(least: float, most: float) -> Kind[float]:
    """Returns the kind of seconds, as a number without a unit, in a range."""
    form = f"a number of seconds from {least:g} to {most:.0f}"
    return decimal(form, lambda value: least <= value <= most)


# --- times and sizes ------------------------------------------------------------------

_ns_of = timed(parse_duration)


def duration(least_ns: int = 0, most_ns: int = 9 * 10**18) -> Kind[int]:
    """Returns the kind of durations in a range, in nanoseconds."""
    wanted = f"{format_duration(least_ns)} or more" if least_ns > 1 else "more than 0s"

    def parse(raw: Any) -> int:
        ns = _ns_of(raw)
        if ns < least_ns:
            raise CoschedError(f"{shown(raw)} is too short; write {wanted}")
        if ns > most_ns:
            most = format_duration(most_ns)
            raise CoschedError(f"{shown(raw)} is too long; write {most} or less")
        return ns

    return Kind(f"duration, {wanted}" if least_ns else "duration", parse, format_duration)


def duration_s(least_ns: int, most_ns: int) -> Kind[float]:
    """Returns the kind of durations in a range, in seconds. most_ns: below 2^53."""
    kind = duration(least_ns, most_ns)
    return Kind(
        kind.form,
        lambda raw: kind.parse(raw) / NS_PER_S,
        lambda value: kind.write(round(value * NS_PER_S)),
    )


def or_word(word: str, kind: Kind[Any], meaning: Any) -> Kind[Any]:
    """Returns the kind of these values, or of another value, written as the word."""

    def parse(raw: Any) -> Any:
        is_word = isinstance(raw, str) and raw.strip() == word
        return meaning if is_word else kind.parse(raw)

    return Kind(
        f'{kind.form} | "{word}"',
        parse,
        lambda value: word if value == meaning else kind.write(value),
        word if meaning is None else kind.none,
    )


def size(least: int = 0, most: int = _MOST) -> Kind[int]:
    """Returns the kind of sizes in a range, in bytes."""
    bounds = f" from {_write_size(least)} to {_write_size(most)}" if most < _MOST else ""

    def parse(raw: Any) -> int:
        wanted = 'a size; write it like "64K" or "8G"'
        count: int = raw if type(raw) is int else parse_bytes(stripped(raw, wanted))
        if not least <= count <= most:
            raise CoschedError(f"{shown(raw)} is not a size{bounds}")
        return count

    return Kind(f"size{bounds}", parse, _write_size)


def _write_size(count: int) -> str:
    for unit, scale in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if count and count % scale == 0:
            return f"{count // scale}{unit}"
    return str(count)


#: Bytes; 0: off.
STORAGE: Kind[int] = or_word(OFF, size(), 0)
#: Bytes; None: as much as the node has; 0: no limit.
CAPACITY: Kind[int | None] = or_word(AUTO, STORAGE, None)


# --- words ----------------------------------------------------------------------------


def _parse_switch(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    value = _SWITCH.get(raw.strip().lower()) if isinstance(raw, str) else None
    if value is None:
        raise CoschedError(f"{shown(raw)} is neither on nor off; write true or false")
    return value


SWITCH: Kind[bool] = Kind("true | false", _parse_switch, bool)


def one_of(*words: str) -> Kind[str]:
    """Returns the kind of one word out of these."""

    def parse(raw: Any) -> str:
        text = stripped(raw, f"one of {', '.join(words)}")
        if text not in words:
            raise CoschedError(
                f"{shown(text)} is none of {', '.join(words)}{suggest(text, words)}"
            )
        return text

    return Kind(" | ".join(f'"{word}"' for word in words), parse, str)


def member_of(names: type[E]) -> Kind[E]:
    """Returns the kind of one member of these, written as its value."""
    words = one_of(*(member.value for member in names))
    return Kind(
        words.form, lambda raw: names(words.parse(raw)), lambda member: member.value
    )


def some_of(*words: str) -> Kind[tuple[str, ...]]:
    """Returns the kind of a list of these words, each once; as text, with commas."""

    def parse(raw: Any) -> tuple[str, ...]:
        items = raw.split(",") if isinstance(raw, str) else raw
        if not isinstance(items, list) or not items:
            raise CoschedError(f"{shown(raw)} is not a list of {', '.join(words)}")
        found = tuple(one_of(*words).parse(item) for item in items)
        if len(set(found)) < len(found):
            raise CoschedError("names something twice")
        return found

    return Kind("list of " + ", ".join(f'"{word}"' for word in words), parse, list)


# --- texts ----------------------------------------------------------------------------


def _parse_text(raw: Any) -> str:
    if not isinstance(raw, str) or "\0" in raw:
        raise CoschedError(f"{shown(raw)} is not a text")
    return raw


def _parse_line(raw: Any) -> str:
    if not isinstance(raw, str) or not raw.isprintable():
        raise CoschedError(f"{shown(raw)} is not one line of text")
    return raw


def _address(least_port: int) -> Kind[str]:
    def parse(raw: Any) -> str:
        text = stripped(raw, 'an address; write it like "127.0.0.1:9434"')
        parse_address(text, "", least_port)
        return text

    return Kind('"HOST:PORT"', parse, str)


def _parse_words(raw: Any) -> tuple[str, ...]:
    if isinstance(raw, str):
        try:
            raw = shlex.split(raw)
        except ValueError as error:
            raise CoschedError(f"{shown(raw)} is not a command line ({error})") from None
    if not isinstance(raw, list) or not all(
        isinstance(word, str) and "\0" not in word for word in raw
    ):
        raise CoschedError(f"{shown(raw)} is not a text or a list of texts")
    return tuple(raw)


TEXT: Kind[str] = Kind("text", _parse_text, str)
LINE: Kind[str] = Kind("text", _parse_line, str)
ADDRESS = _address(least_port=1)
#: Where a daemon listens; with the port 0 the kernel chooses one.
LISTEN = _address(least_port=0)
#: The words of a command; a text is split as a shell splits it.
WORDS: Kind[tuple[str, ...]] = Kind("list, or text", _parse_words, list)


def mapping(form: str, kind: Kind[T]) -> Kind[Mapping[str, T]]:
    """Returns the kind of a table with any keys and values of one kind."""

    def parse(raw: Any) -> dict[str, T]:
        if not isinstance(raw, dict):
            raise CoschedError(f"{shown(raw)} is not a table")
        return parse_each(raw, kind)

    return Kind(
        form, parse, lambda value: {name: kind.write(each) for name, each in value.items()}
    )


def list_of(form: str, kind: Kind[T]) -> Kind[tuple[T, ...]]:
    """Returns the kind of a list of values of one kind."""

    def parse(raw: Any) -> tuple[T, ...]:
        if not isinstance(raw, list):
            raise CoschedError(f"{shown(raw)} is not a {form}")
        numbered = {str(number): each for number, each in enumerate(raw, 1)}
        return tuple(parse_each(numbered, kind).values())

    return Kind(form, parse, lambda value: [kind.write(each) for each in value])


def parse_each(raw: Mapping[str, Any], kind: Kind[T]) -> dict[str, T]:
    """Returns the typed values of a table of values of one kind. Raises Invalid with all
    mistakes."""
    found: dict[str, T] = {}
    mistakes: list[Mistake] = []
    for name, value in raw.items():
        try:
            found[name] = kind.parse(value)
        except CoschedError as error:
            mistakes += mistakes_under(name, error)
    if mistakes:
        raise Invalid(mistakes)
    return found


TEXTS = list_of("list of texts", TEXT)
