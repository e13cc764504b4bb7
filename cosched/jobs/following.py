"""Copies a job's output as it comes, and waits for the job's end."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cosched.cluster.client import Client, NoAnswer, NoDomain
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.missing_member import lacks_a_member
from cosched.cluster.user_requests import FULL_DISK_S
from cosched.start.streams import unwritten, write_some

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo

_FLAGS = os.O_RDONLY | os.O_CLOEXEC
_READ_BYTES = 1 << 20
#: How long a domain may be away, such as while its controller restarts.
PATIENCE_S = 60.0
#: How long it may be there without an answer. A controller waits so long for its disk.
STANDSTILL_S = PATIENCE_S + FULL_DISK_S
_RETRY_S = 0.5
#: How often a client that waits looks whether its private domain is whole.
_LOOK_S = 1.0


class Tail:
    """Copies what is added to a file to the descriptor ``to``. The file may not exist yet.
    A pipe or a device is not read: another program does that, and it may have no end.
    start: its size before; bytes up to there are not copied."""

    def __init__(self, path: Path, to: int, start: int = 0) -> None:
        self.path = path
        self._to = to
        self._at = start
        self._file: int | None = None

    @property
    def found(self) -> bool:
        """Whether the file has existed."""
        return self._file is not None

    def copy(self) -> None:
        """Copies all that is there; waits where there is no room for it. Raises OSError if
        the file cannot be read, Unwritten if the copy cannot be written."""
        if self._file is None:
            try:
                if not stat.S_ISREG(os.stat(self.path).st_mode):
                    return
                self._file = os.open(self.path, _FLAGS)
            except FileNotFoundError:
                return
        while data := os.pread(self._file, _READ_BYTES, self._at):
            rest = memoryview(data)
            while rest:
                written = self._write(rest)
                self._at += written
                rest = rest[written:]

    def copy_rest(self) -> None:
        """Copies the rest of a file that its writer has closed. If that was another
        machine, only a folder and a file that are opened afterwards have all of it."""
        with contextlib.suppress(OSError):  # it need not be readable
            os.close(os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY))
        if self._file is not None:
            with contextlib.suppress(OSError):  # such as after chmod 0
                again = os.open(Path(f"/proc/self/fd/{self._file}"), _FLAGS)
                os.close(self._file)
                self._file = again
        self.copy()

    def _write(self, data: memoryview) -> int:
        try:
            return write_some(self._to, data)
        except OSError as error:
            raise unwritten("the job's output", error) from None

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            os.close(self._file)


def size_of(path: Path) -> int:
    """Returns the size of a file, 0 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class _Watch:
    """Calls ``meanwhile`` while a client waits. Raises NoDomain once the controller or the
    agent of a private domain has gone: an answer may never come."""

    def __init__(self, run_dir: Path, meanwhile: Callable[[], object]) -> None:
        self._paths = DomainPaths(run_dir)
        self._meanwhile = meanwhile
        self._look_at = time.monotonic() + _LOOK_S

    def __call__(self) -> None:
        self._meanwhile()
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_S
            if lacks_a_member(self._paths):
                raise NoDomain("a member of the private domain was killed")


def wait_patiently(
    connect: Callable[[], Client], number: int, meanwhile: Callable[[], object]
) -> JobInfo:
    """Returns a job once it has ended. The domain may be away for a while. meanwhile:
    called again and again until then."""
    away_since: float | None = None
    while True:
        try:
            with connect() as client:
                client.job(number)
                away_since = None
                return client.wait(number, _Watch(client.run_dir, meanwhile))
        except NoDomain as error:
            now = time.monotonic()
            away_since = away_since or now
            patience_s = STANDSTILL_S if isinstance(error, NoAnswer) else PATIENCE_S
            if now >= away_since + patience_s:
                raise
        meanwhile()
        time.sleep(_RETRY_S)
