"""Makes and rings bells: named pipes that make the other end read shared memory.

A FIFO has a name, unlike an eventfd. A restarted daemon therefore finds the pipe to which
the tasks still write.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from cosched.linux.identity import give

#: The default capacity of a pipe.
_PIPE_BYTES = 65536


def make_bell(path: Path, uid: int, gid: int) -> None:
    """Makes a bell that belongs to this user, in place of an older file."""
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    if (uid, gid) != (os.geteuid(), os.getegid()):
        give(path, uid, gid)


def open_bell(path: Path) -> int:
    """Returns a descriptor of the bell, to ring it or to wait for it."""
    # Opened for both directions: a reader always exists, so no writer gets SIGPIPE.
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def ring(fd: int) -> None:
    """Writes one byte into a bell. A full pipe needs no further byte."""
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(fd, b"\1")


def silence(fd: int) -> None:
    """Empties a bell, at most one pipe full.

    A bell that rings all the time stays readable, so the loop returns to it later."""
    with contextlib.suppress(BlockingIOError):
        os.read(fd, _PIPE_BYTES)
