"""How far back: a span of time as people type it, ``30s``, ``5m``, ``2h``, ``7d``."""

from __future__ import annotations

import re

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|min|m|h|d)\s*")


def is_span(text: str) -> bool:
    """Whether that is a time with its unit."""
    return _SPAN.fullmatch(text) is not None


def parse_span(text: str, option: str) -> int:
    """Nanoseconds; ``option`` names in an error who wants to know."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise CoschedError(f"{option}: '{text}' is not a time; write it like 30s, 5m or 2h")
    return round(float(match[1]) * _SECONDS[match[2]] * NS_PER_S)
