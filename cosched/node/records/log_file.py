"""Writes the log of both daemons: one file, closed to other users, of bounded size.

The scheduler daemon rotates the file. The timer daemon writes little, and checks before
each line whether its file is still the current one.
"""

from __future__ import annotations

import io
import logging
import os
from logging.handlers import RotatingFileHandler, WatchedFileHandler
from pathlib import Path

LOG_BYTES = 4 * 1024 * 1024
#: The number of full files that are kept.
KEPT = 1


def open_log(
    path: Path, *, verbose: bool, capture: bool, limit_bytes: int = LOG_BYTES
) -> logging.Handler:
    """Logs to ``path``, at most two files of ``limit_bytes``.

    ``capture`` sends standard output and error there too."""
    handler = _Rotating(path, limit_bytes, capture=capture)
    _install(handler, "%(name)s", logging.DEBUG if verbose else logging.INFO)
    return handler


def join_log(path: Path, who: str) -> logging.Handler:
    """Logs to the same file from another process, under the name ``who``."""
    handler = _Following(path)
    _install(handler, who, logging.INFO)
    return handler


class _Rotating(RotatingFileHandler):
    def __init__(self, path: Path, limit_bytes: int, *, capture: bool) -> None:
        self._capture = capture
        super().__init__(path, maxBytes=limit_bytes, backupCount=KEPT)

    def _open(self) -> io.TextIOWrapper:
        stream = _open_closed(self.baseFilename)
        if self._capture:
            for fd in (1, 2):
                os.dup2(stream.fileno(), fd)
        return stream


class _Following(WatchedFileHandler):
    def _open(self) -> io.TextIOWrapper:
        return _open_closed(self.baseFilename)


def _open_closed(path: str) -> io.TextIOWrapper:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    os.fchmod(fd, 0o600)  # an older file may be readable for other users
    # The name of a job or a file may be invalid UTF-8.
    return open(fd, "a", encoding="utf-8", errors="backslashreplace")


def _install(handler: logging.Handler, who: str, level: int) -> None:
    form = f"%(asctime)s %(levelname)s {who}: %(message)s"
    handler.setFormatter(logging.Formatter(form))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(level)
