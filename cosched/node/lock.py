"""One daemon of a kind a node: a lock file that the kernel releases when it dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

PID_WIDTH = 10


class DaemonLock:
    """Holds ``path`` locked, with this process's id written inside."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self) -> bool:
        """False if another live process holds it."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        # One write of fixed width, so that no reader sees half of an old pid.
        os.pwrite(fd, f"{os.getpid():<{PID_WIDTH}}\n".encode(), 0)
        self._fd = fd
        return True

    def release(self) -> None:
        """Unlocks and removes the file."""
        if self._fd is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = None


def lock_holder(path: Path) -> int | None:
    """The pid of the live daemon that holds the lock, or None.

    A pid is only believed while the lock is held, so a reused one cannot be mistaken
    for the daemon's.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(fd, 32, 0).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None  # it is just about to say
    else:
        return None
    finally:
        os.close(fd)
