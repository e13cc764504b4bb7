"""Writes the log of both daemons: one file, closed to other users, of bounded size.

Each line is one line, whatever names it has in it, and no user can cause many
(``user_lines``). The scheduler daemon rotates the file. The timer daemon writes little. It
checks before each line whether its file is still the current one. It rotates a file that is
much too long, because then there is no scheduler daemon.
"""

from __future__ import annotations

import io
import logging
import os
from logging.handlers import RotatingFileHandler, WatchedFileHandler
from pathlib import Path

from cosched.core.decoding import printable
from cosched.node.records.user_lines import UserLines

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


def join_log(path: Path, who: str, limit_bytes: int = LOG_BYTES) -> logging.Handler:
    """Logs to the same file from another process, under the name ``who``."""
    handler = _Following(path, limit_bytes + limit_bytes // 8)
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
    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        super().__init__(path)

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line, in a new file if the current one is too long. The caller goes on
        after an error, such as that of a removed directory."""
        try:
            self.reopenIfNeeded()
            if os.stat(self.baseFilename).st_size > self._limit_bytes:
                os.replace(self.baseFilename, f"{self.baseFilename}.{KEPT}")
            super().emit(record)
        except OSError:
            self.handleError(record)

    def _open(self) -> io.TextIOWrapper:
        return _open_closed(self.baseFilename)


class _OneLine(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        """Returns the line without the control characters that a name may have in it. The
        lines of a traceback come after it."""
        return printable(super().formatMessage(record))


def _open_closed(path: str) -> io.TextIOWrapper:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    os.fchmod(fd, 0o600)  # an older file may be readable for other users
    # The name of a job or a file may be invalid UTF-8.
    return open(fd, "a", encoding="utf-8", errors="backslashreplace")


def _install(handler: logging.Handler, who: str, level: int) -> None:
    form = f"%(asctime)s %(levelname)s {who}: %(message)s"
    handler.setFormatter(_OneLine(form))
    handler.addFilter(UserLines())
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(level)
