"""Writes lengths of time and bad lines as people read them in tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def left_out(skipped: Mapping[str, int]) -> list[str]:
    """Returns a line that counts the bad lines of a log, or nothing if it has none."""
    faults = ", ".join(f"{count} {fault}" for fault, count in skipped.items())
    return [f"lines left out: {faults}"] if faults else []


def duration(seconds: float) -> str:
    """Returns ``45 s``, ``12.3 min``, ``3.4 h`` or ``2.1 d``: enough digits to compare."""
    for unit, scale, least in (("d", 86400, 2), ("h", 3600, 1), ("min", 60, 2)):
        if seconds >= least * scale:
            return f"{seconds / scale:.1f} {unit}"
    return f"{seconds:.0f} s"
