"""Parses and writes the kinds of values: TOML values in a file, texts in variables or
options.

A kind's ``parse`` takes either form and returns the typed value. It raises CoschedError
with the mistake and the right form. ``write`` returns the TOML value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.node.settings import (
    AUTO,
    Fairness,
    LeastShare,
    Order,
    parse_gmet,
    parse_least_share,
    parse_slice,
    write_gmet,
    write_least_share,
    write_slice,
)
from cosched.core.units import format_duration, parse_bytes, parse_duration

OFF = "off"
WAITS = ("spin", "yield", "block", "auto", "busy")
_TIMED_WAITS = ("block", "auto")
_SWITCH = {
    **dict.fromkeys(("on", "yes", "true", "1"), True),
    **dict.fromkeys(("off", "no", "false", "0"), False),
}
_PORT_MAX = 65535

T = TypeVar("T")


class Move(str, Enum):
    """Whether tasks may be moved into groups of cosched's own."""

    FREE = "free"
    """Those of ordinary users only if they leave no limit."""
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value. ``form`` describes it to users."""

    form: str
    parse: Callable[[Any], Any]
    write: Callable[[Any], Any]


def suggest(word: str, known: Iterable[str]) -> str:
    """Returns ``; did you mean 'x'?`` if a known word is close, otherwise an empty text."""
    import difflib  # only a mistake needs it

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _text(raw: Any, form: str) -> str:
    if not isinstance(raw, str):
        raise CoschedError(f"{_shown(raw)} is not {form}")
    return raw.strip()


def _shown(raw: Any) -> str:
    return str(raw).lower() if isinstance(raw, bool) else str(raw)


def _timed(parse: Callable[[str, str], T]) -> Callable[[Any], T]:
    def parsed(raw: Any) -> T:
        if isinstance(raw, (int, float)) and not isinstance(raw, bool):
            raise CoschedError(f'{raw} has no unit; write it like "{raw}s" or "{raw}ms"')
        return _unnamed(parse, _text(raw, 'a duration; write it like "500ms"'))

    return parsed


def _unnamed(parse: Callable[[str, str], T], text: str) -> T:
    """Parses without the name of the key, which a caller adds to the error."""
    try:
        return parse(text, "")
    except CoschedError as error:
        raise CoschedError(str(error).removeprefix(": ")) from None


def _parse_share(raw: Any) -> LeastShare:
    return _unnamed(parse_least_share, _text(raw, 'a share; write it like "25%/30s"'))


_parse_duration = _timed(parse_duration)


def _parse_switch(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    value = _SWITCH.get(raw.strip().lower()) if isinstance(raw, str) else None
    if value is None:
        raise CoschedError(f"'{_shown(raw)}' is neither on nor off; write true or false")
    return value


def _parse_count(raw: Any) -> int:
    if isinstance(raw, str) and is_whole(raw.strip()):
        raw = parse_integer(raw, "", 0, (1 << 63) - 1)
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 1:
        raise CoschedError(f"'{_shown(raw)}' is not a whole number of 1 or more")
    return raw


def _parse_address(raw: Any) -> str:
    text = _text(raw, 'an address; write it like "127.0.0.1:9434", or "off"')
    if text == OFF:
        return text
    host, colon, port = text.rpartition(":")
    if not colon or not host or not is_whole(port):
        raise CoschedError(f"'{text}' is not HOST:PORT, such as 127.0.0.1:9434, nor off")
    if not is_whole(port, most=_PORT_MAX):
        raise CoschedError(f"'{text}': a port is at most {_PORT_MAX}")
    return text


def _parse_capacity(raw: Any) -> int | None:
    """Returns bytes; None: as much as the node has; 0: no limit."""
    text = _text(raw, 'a size; write it like "64G", "auto" or "off"')
    if text in (AUTO, OFF):
        return None if text == AUTO else 0
    try:
        size = parse_bytes(text, "")
    except CoschedError:
        size = 0
    if not size:
        raise CoschedError(f"'{text}' is no size such as 64G, nor {AUTO} or {OFF}")
    return size


def _parse_storage(raw: Any) -> int:
    """Returns bytes; 0: off."""
    text = _text(raw, 'a size; write it like "16M", or "off"')
    if text == OFF:
        return 0
    try:
        return parse_bytes(text, "")
    except CoschedError:
        raise CoschedError(f"'{text}' is no size such as 16M, nor {OFF}") from None


def _write_storage(size: int) -> str:
    for unit, scale in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size and size % scale == 0:
            return f"{size // scale}{unit}"
    return str(size) if size else OFF


def _parse_wait(raw: Any) -> str:
    text = _text(raw, "a way to wait")
    word, colon, duration = text.partition(":")
    if word not in WAITS:
        raise CoschedError(f"'{text}' is none of {', '.join(WAITS)}{suggest(word, WAITS)}")
    if colon and word not in _TIMED_WAITS:
        raise CoschedError(f"'{text}': only {' and '.join(_TIMED_WAITS)} take a time")
    if colon:
        _parse_duration(duration)
    return text


def one_of(*words: str) -> Kind:
    """Returns the kind of one word out of these."""

    def parse(raw: Any) -> str:
        text = _text(raw, f"one of {', '.join(words)}")
        if text not in words:
            raise CoschedError(
                f"'{text}' is none of {', '.join(words)}{suggest(text, words)}"
            )
        return text

    return Kind(" | ".join(words), parse, str)


def _member_of(names: type[Enum]) -> Kind:
    """Returns the kind of one member of these, written as its value."""
    words = one_of(*(member.value for member in names))
    return Kind(
        words.form, lambda raw: names(words.parse(raw)), lambda member: member.value
    )


def some_of(*words: str) -> Kind:
    """Returns the kind of a list of these words, each once; as text, with commas."""

    def parse(raw: Any) -> tuple[str, ...]:
        items = raw.split(",") if isinstance(raw, str) else raw
        if not isinstance(items, list) or not items:
            raise CoschedError(f"'{_shown(raw)}' is not a list of {', '.join(words)}")
        found = tuple(one_of(*words).parse(item) for item in items)
        if len(set(found)) < len(found):
            raise CoschedError("names something twice")
        return found

    return Kind(f"list of {', '.join(words)}", parse, list)


DURATION = Kind("duration", _parse_duration, format_duration)
SLICE = Kind("duration | auto[:LEAST]", _timed(parse_slice), write_slice)
GMET = Kind("duration | auto", _timed(parse_gmet), write_gmet)
LEAST_SHARE = Kind("PERCENT%/TIME", _parse_share, write_least_share)
ORDER = _member_of(Order)
FAIRNESS = _member_of(Fairness)
MOVE = _member_of(Move)
SWITCH = Kind("true | false", _parse_switch, bool)
COUNT = Kind("count", _parse_count, int)
ADDRESS = Kind("HOST:PORT | off", _parse_address, str)
CAPACITY = Kind("SIZE | auto | off", _parse_capacity, _write_storage)
STORAGE = Kind("SIZE | off", _parse_storage, _write_storage)
WAIT = Kind("spin | yield | block[:TIME] | auto[:TIME]", _parse_wait, str)
