"""Reads what the jobs write."""

from __future__ import annotations

from pathlib import Path


def first_begin(path: Path) -> float | None:
    """Returns when a job began, by the wall clock in seconds; None: not yet. Each node of a
    job of cosched runs the script, so the first time counts."""
    text = path.read_text() if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    return min(map(float, whole.split()), default=None)
