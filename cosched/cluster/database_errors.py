"""Chooses the advice for an error of a database: full, read-only, locked, damaged."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path


def is_full(error: sqlite3.Error, path: Path) -> bool:
    """Returns whether a full disk caused the error."""
    text = str(error)
    if "disk is full" in text:
        return True
    if "disk I/O error" not in text:
        return False
    with contextlib.suppress(OSError):
        return os.statvfs(path.parent).f_bavail == 0
    return False


def advice(error: sqlite3.Error, path: Path, damaged: str) -> str:
    """Returns what to do about an error of a database. damaged: for a file that cannot be
    read."""
    text = str(error)
    if is_full(error, path):
        return "free space on its disk, then try again"
    if "readonly" in text or "read-only" in text or "unable to open" in text:
        return f"let its user write it and {path.parent}"
    if "disk I/O error" in text:
        return "its disk has errors; see the kernel's log"
    if "locked" in text:
        return "another program has it open; end that one"
    return damaged
