"""Writes a number with the thing that it counts."""

from __future__ import annotations


def counted(number: int, thing: str, several: str = "") -> str:
    """Returns ``1 node`` or ``2 nodes``. several: the plural; empty: with an s."""
    return f"{number} {thing if number == 1 else several or thing + 's'}"
