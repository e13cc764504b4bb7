"""Converts rates of links between text (``1gbit``) and bits a second."""

from __future__ import annotations

import re

from cosched.core.decoding import labelled, parse_scaled
from cosched.core.errors import CoschedError

#: The rates of a link. The kernel's token bucket holds the bytes a second, and the time of
#: its burst, in 32 bits.
RATE_LEAST, RATE_MOST = 100_000, 30 * 10**9

_RATE = r"(?ai)\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmg])bit(?:/s)?\s*"
_RATE_UNITS = {"g": 10**9, "m": 10**6, "k": 10**3}


def parse_rate(text: str, what: str = "") -> int:
    """Returns bits a second of a text such as ``1gbit`` or ``100 Mbit/s``; units are
    decimal.

    ``what`` names the setting in an error.
    """
    match = re.fullmatch(_RATE, text)
    if match is None:
        line = f"'{text:.40}' is not a rate; write it like 100mbit or 1gbit"
        raise CoschedError(labelled(what, line))
    exact = parse_scaled(match[1], _RATE_UNITS[match[2].lower()])
    if not RATE_LEAST <= exact <= RATE_MOST:
        line = (
            f"'{text:.40}' is out of range; write {format_rate(RATE_LEAST)} to "
            f"{format_rate(RATE_MOST)}"
        )
        raise CoschedError(labelled(what, line))
    return exact


def format_rate(bits: int) -> str:
    """Returns a text that ``parse_rate`` reads as exactly this rate: ``1 Gbit/s``,
    ``1.5 Mbit/s``."""
    prefix, digits = ("G", 9) if bits >= 10**9 else ("M", 6) if bits >= 10**6 else ("k", 3)
    whole, rest = divmod(bits, 10**digits)
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".") + f" {prefix}bit/s"
