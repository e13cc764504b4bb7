"""Compares times of which some may be missing."""

from __future__ import annotations

from collections.abc import Iterable


def earliest(times: Iterable[int | None]) -> int | None:
    """Returns the first of these times; None if all are missing."""
    first_ns = None
    for at_ns in times:
        if at_ns is not None and (first_ns is None or at_ns < first_ns):
            first_ns = at_ns
    return first_ns
