"""Carries the output of tasks: labels, credit towards the root, and the job's files."""

from __future__ import annotations

import os

from cosched.cluster.agent.steward.tasks import STDERR, STDOUT
from cosched.core.errors import CoschedError

#: A node may send so many bytes before the root has written them.
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

    error: empty for the same file as ``output``. Raises CoschedError if a file cannot be
    opened.
    """

    def __init__(self, output: str, error: str, cwd: str) -> None:
        out = _open(os.path.join(cwd, output))
        self._files = {STDOUT: out, STDERR: out}
        if error and error != output:
            self._files[STDERR] = _open(os.path.join(cwd, error))
        self.problem = ""  #: why output is missing; the first reason

    def write(self, stream: int, data: bytes) -> None:
        """Writes all of the data; a full disk loses it and is noted in ``problem``."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._files[stream], view) :]
            except OSError as error:
                self.problem = self.problem or f"output is missing: {error.strerror}"
                return

    def close(self) -> None:
        """Closes the files."""
        for descriptor in set(self._files.values()):
            os.close(descriptor)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise CoschedError(f"output {path}: {error.strerror}") from None
