"""The file to which a scheduler daemon writes its trace: bounded, and never in its way.

Two files in the node's directory take turns: ``trace.jsonl`` is written until it has half
of the bytes allowed, then it becomes ``trace.1.jsonl`` in place of the one before. A
segment begins wherever a daemon starts and with each file, so that either file is worth
reading without the other.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from cosched.core.trace_codec import Header, Line, encode

#: What both files together may take, some.
DEFAULT_BYTES = 16 * 1024 * 1024
CURRENT, PREVIOUS = "trace.jsonl", "trace.1.jsonl"


class TraceFile:
    """Appends lines to a node's trace. Every method may raise OSError.

    ``header`` makes the header of a segment that begins now. ``limit_bytes``: for both
    files together; the last lines before a change may exceed it by what is written at once.
    """

    def __init__(
        self, directory: Path, limit_bytes: int, header: Callable[[], Header]
    ) -> None:
        self._directory = directory
        self._half_bytes = limit_bytes // 2
        self._header = header
        self._fd = -1
        try:
            self._open()
            self._make_room()
        except OSError:
            self.close()
            raise

    def write(self, lines: Sequence[Line]) -> None:
        """Appends lines, all at once."""
        self._append(encode(lines))
        self._make_room()

    def close(self) -> None:
        """Ends the writing; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        # Not through a link: the directory may be one in which others can write.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self._directory / CURRENT, flags, 0o600)
        self._size = os.fstat(self._fd).st_size
        # A daemon that was killed may have left half a line.
        torn = self._size > 0 and os.pread(self._fd, 1, self._size - 1) != b"\n"
        self._append((b"\n" if torn else b"") + encode([self._header()]))

    def _append(self, data: bytes) -> None:
        if os.write(self._fd, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(data)

    def _make_room(self) -> None:
        if self._size > self._half_bytes:
            self.close()
            (self._directory / CURRENT).replace(self._directory / PREVIOUS)
            self._open()
