"""Prints what cosched-run reports while it works."""

from __future__ import annotations

import sys


def warn(message: object) -> None:
    """Prints a warning of cosched-run."""
    print(f"cosched-run: warning: {message}", file=sys.stderr)


def note(line: str) -> None:
    """Prints progress on a terminal."""
    if sys.stderr.isatty():
        print(f"cosched-run: {line}", file=sys.stderr)
