"""Reads what the jobs write."""

from __future__ import annotations

from pathlib import Path

from cosched.core.errors import CoschedError


def first_begin(path: Path, scripts: int) -> float | None:
    """Returns when a job began, by the wall clock in seconds; None: not yet.

    scripts: how many nodes of the job run the script. The first time counts. Raises
    CoschedError if there are more times, since the job has begun twice.
    """
    text = path.read_text() if path.exists() else ""
    begins = [float(word) for word in text[: text.rfind("\n") + 1].split()]
    if len(begins) > scripts:
        raise CoschedError(f"{path.name} has begun twice: {begins}")
    return min(begins, default=None)
