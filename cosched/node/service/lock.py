"""One daemon of a kind a node: a lock file that the kernel releases when it dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux.pidfd import open_pidfd

PID_WIDTH = 10


class DaemonLock:
    """Holds ``path`` locked, with this process's id written inside.

    The file is closed to other users: whoever can open it can lock it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self) -> bool:
        """False if another live process holds it; CoschedError if it is another user's."""
        while True:
            fd = self._open()
            os.fchmod(fd, 0o600)
            if not _lock(fd):
                os.close(fd)
                return False
            # Whoever held it before may have removed the file between our open and lock:
            # then it is not the one that others will find.
            if _is_at(fd, self.path):
                break
            os.close(fd)
        # One write of fixed width, so that no reader sees half of an old pid.
        os.pwrite(fd, f"{os.getpid():<{PID_WIDTH}}\n".encode(), 0)
        self._fd = fd
        return True

    def release(self) -> None:
        """Unlocks and removes the file; one that took its place meanwhile is not ours."""
        if self._fd is not None:
            if _is_at(self._fd, self.path):
                self.path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        # Not through a link: root may clean up a directory that is another user's.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(self.path, flags, 0o600)
        except PermissionError:
            raise _not_ours(self.path) from None
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise CoschedError(f"{self.path}: is a link; remove it") from None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Holds the lock within the block; yields False if another live process has it."""
    lock = DaemonLock(path)
    try:
        mine = lock.acquire()
    except FileNotFoundError:
        mine = True  # without its directory nobody can get it
    try:
        yield mine
    finally:
        lock.release()


def _lock(fd: int) -> bool:
    """False if a daemon has it. Those who only look (``lock_holder``) share it for a
    moment, during which nobody gets it for himself: then it is tried again."""
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _is_shared(fd):
                return False
            os.sched_yield()
        else:
            return True


def _is_shared(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return True


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _not_ours(path: Path) -> CoschedError:
    return CoschedError(f"{path}: the daemons there are another user's")


def lock_holder(path: Path) -> int | None:
    """The pid of the live daemon that holds the lock, or None.

    A pid is only believed while the lock is held, so a reused one cannot be mistaken
    for the daemon's. CoschedError if the lock is another user's.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise _not_ours(path) from None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(fd, 32, 0).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None  # it is just about to say
    else:
        return None
    finally:
        os.close(fd)


def hold_daemon(path: Path) -> int | None:
    """A pidfd of the daemon that holds the lock, None if there is none: a signal through it
    reaches this daemon or nobody."""
    pid = lock_holder(path)
    fd = None if pid is None else open_pidfd(pid)
    # Asked again: it may have ended before it was held, and another have its number.
    if fd is not None and lock_holder(path) != pid:
        os.close(fd)
        return None
    return fd
