"""Writes the trace of a scheduler daemon to its file.

A segment begins at each start of a daemon and in each file. So each of the two files can
be read without the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from cosched.core.config.schema import TRACE_BYTES
from cosched.core.trace.codec import Header, Line, encode
from cosched.node.records.bounded_file import BoundedFile, Place


def trace_place(directory: Path, limit_bytes: int = TRACE_BYTES) -> Place:
    """Returns the place of a node's trace."""
    return Place(directory, "trace", limit_bytes)


class TraceFile:
    """Appends lines to a node's trace. Every method may raise OSError.

    ``header`` returns the header of a segment that begins now.
    """

    def __init__(self, place: Place, header: Callable[[], Header]) -> None:
        self._file = BoundedFile(place, lambda: encode([header()]))

    def write(self, lines: Sequence[Line]) -> None:
        """Appends lines with one write."""
        self._file.append(encode(lines))

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        self._file.close()
