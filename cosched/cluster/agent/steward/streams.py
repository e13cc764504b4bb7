"""Carries the output of tasks: labels, credit towards the root, and the job's files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from cosched.cluster.agent.steward.task_process import STDERR, STDOUT
from cosched.core.errors import CoschedError

#: The most bytes that a node may send before the root has written them.
CREDIT_BYTES = 1 << 20
READ_BYTES = 1 << 16
#: A labeled line that grows to this many bytes is written in parts.
LONGEST_LINE = 1 << 16
#: The longest output that a steward sends at once: read bytes, with labels of lines.
LONGEST_OUTPUT = 1 << 20


class Labeler:
    """Puts ``[LABEL] `` in front of each line of one stream of one task.

    It returns whole lines only, so that lines of several tasks do not mix. A task may write
    its lines in pieces: Python without buffers writes each line's end by itself.
    """

    def __init__(self, label: str) -> None:
        self._label = f"[{label}] ".encode()
        self._kept: list[bytes] = []  # the pieces of a line that has no end yet
        self._kept_bytes = 0

    def label(self, data: bytes) -> bytes:
        """Returns the lines that are complete now; it divides a line that is too long."""
        end = data.rfind(b"\n") + 1
        lines = self._take(data[:end]) if end else b""
        self._kept.append(data[end:])
        self._kept_bytes += len(data) - end
        return lines if self._kept_bytes < LONGEST_LINE else lines + self.rest()

    def rest(self) -> bytes:
        """Returns the line that has no end, with an end; empty if there is none."""
        return self._take(b"\n") if self._kept_bytes else b""

    def _take(self, data: bytes) -> bytes:
        text = b"".join((*self._kept, data))
        self._kept, self._kept_bytes = [], 0
        return b"".join(self._label + line + b"\n" for line in text.split(b"\n")[:-1])


class OutputFiles:
    """The files into which the root writes what all tasks of a job wrote.

    error: empty for the same file as ``output``. lost: takes, once, why output is missing.
    Raises CoschedError if a file cannot be opened.
    """

    def __init__(
        self, output: str, error: str, cwd: str, lost: Callable[[str], None]
    ) -> None:
        self._lost: Callable[[str], None] | None = lost
        path = os.path.join(cwd, output)
        self._files = {_open(path): path}
        (out,) = self._files
        self._by_stream = {STDOUT: out, STDERR: out}
        if error and error != output:
            path = os.path.join(cwd, error)
            self._by_stream[STDERR] = _open(path)
            self._files[self._by_stream[STDERR]] = path

    def write(self, stream: int, data: bytes) -> None:
        """Writes all of the data; a full disk loses the rest of it."""
        descriptor = self._by_stream[stream]
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except OSError as error:
                self._lose(descriptor, error)
                return

    def close(self) -> None:
        """Closes the files. A file system of the network may lose output only now."""
        for descriptor in self._files:
            try:
                os.close(descriptor)
            except OSError as error:
                self._lose(descriptor, error)

    def _lose(self, descriptor: int, error: OSError) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            lost(f"output {self._files[descriptor]} is incomplete: {error.strerror}")


def _open(path: str) -> int:
    # Without O_NONBLOCK a pipe without a reader would keep the start waiting.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    except OSError as error:
        why = error.strerror
        if error.errno == errno.ENXIO:
            why = "is a pipe without a reader; start its reader before the job"
        raise CoschedError(f"output {path}: {why}") from None
    os.set_blocking(descriptor, True)
    return descriptor
