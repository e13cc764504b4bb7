"""Keeps results in a file of JSON lines, so that an interrupted program can continue.

Each result is one line, forced to disk as soon as it is there. Invariants:

* Lines are appended under a lock, so several programs can write to one file.
* A program that was killed may have left a part of a line. Readers leave it out, and the
  next writer removes it. Nothing else is ever removed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from cosched.core.decoding import decode_json
from cosched.core.errors import CoschedError


class Store:
    """The lines of a file, which need not exist before the first line is added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: BinaryIO | None = None

    def lines(self) -> list[Any]:
        """Returns the values of all lines. Raises Malformed for a line that is no JSON."""
        whole, _ = self._parts()
        return [decode_json(line, str(self.path)) for line in whole.splitlines()]

    @property
    def torn(self) -> bytes:
        """The part of a line at the end of the file; empty after a whole line."""
        return self._parts()[1]

    def add(self, value: object) -> None:
        """Appends a line. Waits for another program that appends one now."""
        line = json.dumps(value).encode() + b"\n"
        if self._held is not None:
            _append(self._held, line)
            return
        with self.path.open("a+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            _append(stream, line)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other writers away during the block. Raises CoschedError if one is there,
        and for a file that cannot be written."""
        try:
            stream = self.path.open("a+b")
        except OSError as error:
            raise CoschedError(f"cannot write '{self.path}': {error.strerror}") from error
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CoschedError(
                    f"'{self.path}' is being written by another bench; wait, or name "
                    "another file"
                ) from error
            self._held = stream
            try:
                yield
            finally:
                self._held = None

    def _parts(self) -> tuple[bytes, bytes]:
        """Returns the whole lines, and the part of a line after them."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return b"", b""
        end = data.rfind(b"\n") + 1
        return data[:end], data[end:]


def _append(stream: BinaryIO, line: bytes) -> None:
    size = stream.seek(0, os.SEEK_END)
    if size:
        stream.seek(size - 1)
        if stream.read(1) != b"\n":
            stream.seek(0)
            os.ftruncate(stream.fileno(), stream.read().rfind(b"\n") + 1)
    stream.write(line)
    stream.flush()
    os.fsync(stream.fileno())
