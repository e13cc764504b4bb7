"""Writes counts in words: ``1 node``, ``2 nodes``, or the names of a few."""

from __future__ import annotations

from collections.abc import Sequence

#: A line has the number of things that are more than these.
NAMED_MOST = 4


def counted(number: int, thing: str, several: str = "") -> str:
    """Returns ``1 node`` or ``2 nodes``. several: the plural; empty: with an s."""
    return f"{number} {thing if number == 1 else several or thing + 's'}"


def named(names: Sequence[str], thing: str) -> str:
    """Returns ``n1, n2``, or ``64 nodes`` if there are many. thing: one of them."""
    if len(names) > NAMED_MOST:
        return counted(len(names), thing)
    return ", ".join(names)
