"""Writes the trace of a scheduler daemon to its file.

A segment begins at each start of a daemon and in each file. So each of the two files can
be read without the other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cosched.core.config.schema import TRACE_BYTES
from cosched.core.trace.codec import Header, encode
from cosched.node.records.bounded_file import BoundedFile, Place


def trace_place(directory: Path, limit_bytes: int = TRACE_BYTES) -> Place:
    """Returns the place of a node's trace."""
    return Place(directory, "trace", limit_bytes)


def open_trace(place: Place, header: Callable[[], Header]) -> BoundedFile:
    """Opens a trace; ``header`` returns the header of a segment that begins now."""
    return BoundedFile(place, lambda: encode([header()]))
