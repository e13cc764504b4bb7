"""Carries the output of tasks: labels, credit towards the root, and the job's files."""

from __future__ import annotations

import os

from cosched.cluster.agent.tasks import STDERR, STDOUT
from cosched.core.errors import CoschedError

#: A node may send so many bytes before the root has written them.
CREDIT_BYTES = 1 << 20
READ_BYTES = 1 << 16


class Labeler:
    """Puts ``[RANK] `` in front of each line of one stream of one task."""

    def __init__(self, rank: int) -> None:
        self._label = f"[{rank}] ".encode()
        self._at_start = True

    def label(self, data: bytes) -> bytes:
        """Returns the data with labels; a line may come in pieces."""
        pieces = []
        for line in data.splitlines(keepends=True):
            pieces.append(self._label + line if self._at_start else line)
            self._at_start = line.endswith(b"\n")
        return b"".join(pieces)


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
