"""Converts durations and sizes between text (``0.5s``, ``8G``) and numbers (ns, bytes)."""

from __future__ import annotations

import re

from cosched.core.decoding import labelled, parse_integer, parse_scaled
from cosched.core.errors import CoschedError

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
NS_PER_US = 1_000

#: The longest slice, GMET or run: a year. Deadlines that are sums of these stay below 2^63.
LENGTH_MAX_NS = 366 * 24 * 3600 * NS_PER_S

#: The largest number in shared memory has 63 bits.
_MOST = 9 * 10**18

_SCALE = {
    "ns": 1,
    "us": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
    "d": 86400 * NS_PER_S,
}
# Each is compiled at its first use: most commands read no text of this kind.
_DURATION = r"(?a)\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*"


def parse_duration(text: str, what: str = "") -> int:
    """Returns nanoseconds; ``what`` names the setting in an error."""
    match = re.fullmatch(_DURATION, text)
    if match is None or match[2] not in _SCALE:
        line = f"'{text}' is not a duration; write it like 500ms, 0.5s or 2min"
        raise CoschedError(labelled(what, line))
    exact = parse_scaled(match[1], _SCALE[match[2]])
    if exact > _MOST:
        line = f"'{text:.40}' is too long; write less than 290 years"
        raise CoschedError(labelled(what, line))
    return exact


_CLOCK = (
    r"(?a)\s*(?:(\d{1,9})-(\d{1,9})(?::(\d{1,9})(?::(\d{1,9}))?)?"
    r"|(?:(?:(\d{1,9}):)?(\d{1,9}):)?(\d{1,9}))\s*"
)


def parse_run_time(text: str) -> int:
    """Returns nanoseconds of a duration such as ``2h``, or of a time as batch systems write
    it.

    ``90`` are seconds, and after colons come minutes and seconds: ``1:30``, ``2:00:00``.
    After days come hours: ``1-12``, ``1-12:30``, ``1-12:30:00``.
    """
    match = re.fullmatch(_CLOCK, text)
    if match is None:
        try:
            return parse_duration(text)
        except CoschedError:
            raise CoschedError(
                f"'{text:.40}' is not a time; write it like 90s, 1:30, 2h or 1-12:00:00"
            ) from None
    days, *numbers = (parse_integer(group or "0", "", 0, 10**9) for group in match.groups())
    hours, minutes, seconds = map(sum, zip(numbers[:3], numbers[3:], strict=True))
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * NS_PER_S


def format_duration(ns: int) -> str:
    """Returns a short text that ``parse_duration`` reads as exactly this duration: ``1s``,
    ``250ms``, ``1.5us``. Whole minutes, hours and days are written so: ``30min``."""
    for unit in ("d", "h", "min"):
        if ns and ns % _SCALE[unit] == 0:
            return f"{ns // _SCALE[unit]}{unit}"
    for unit, digits in (("s", 9), ("ms", 6), ("us", 3)):
        if ns >= 10**digits:
            whole, rest = divmod(ns, 10**digits)
            return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".") + unit
    return f"{ns}ns"


_BYTES = r"(?ai)\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgtp]?)(?:i?b)?\s*"
_BYTE_UNITS = ("", "k", "m", "g", "t", "p")


def parse_bytes(text: str, what: str = "") -> int:
    """Returns bytes of a text such as ``8G`` or ``512 MiB``; units are powers of 1024.

    ``what`` names the setting in an error.
    """
    match = re.fullmatch(_BYTES, text)
    if match is None:
        line = f"'{text}' is not a size; write it like 512M or 8G"
        raise CoschedError(labelled(what, line))
    exact = parse_scaled(match[1], 1 << 10 * _BYTE_UNITS.index(match[2].lower()))
    if exact > _MOST:
        line = f"'{text:.40}' is too large; write less than 8 EiB"
        raise CoschedError(labelled(what, line))
    return exact


def format_bytes(count: int) -> str:
    """Returns a rounded size: ``8.0 GiB``, ``512.0 MiB``, ``17 B``."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{count / 1024**power:.1f} {unit}"
    return f"{count} B"
