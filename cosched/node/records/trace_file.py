"""The file to which a scheduler daemon writes its trace.

A segment begins wherever a daemon starts and with each file, so that either of the two
files is worth reading without the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from cosched.core.config.schema import TRACE_BYTES
from cosched.core.trace.codec import Header, Line, encode
from cosched.node.records.bounded_file import BoundedFile, Place


def trace_place(directory: Path, limit_bytes: int = TRACE_BYTES) -> Place:
    """Where a node's trace is."""
    return Place(directory, "trace", limit_bytes)


class TraceFile:
    """Appends lines to a node's trace. Every method may raise OSError.

    ``header`` makes the header of a segment that begins now.
    """

    def __init__(self, place: Place, header: Callable[[], Header]) -> None:
        self._file = BoundedFile(place, lambda: encode([header()]))

    def write(self, lines: Sequence[Line]) -> None:
        """Appends lines, all at once."""
        self._file.append(encode(lines))

    def close(self) -> None:
        """Ends the writing; a second call does nothing."""
        self._file.close()
