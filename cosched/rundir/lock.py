"""Locks a file, so that a node has one daemon of a kind; its death releases the lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from cosched.core.decoding import is_whole, shown_text
from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.pidfd import open_pidfd

PID_WIDTH = 10


class DaemonLock:
    """Holds ``path`` locked, with this process's pid in it.

    The file is closed to other users, because a user who can open it can lock it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self) -> bool:
        """Takes the lock; returns False if another live process holds it.

        Raises CoschedError if the file belongs to another user or cannot be written."""
        while True:
            fd = self._open()
            os.fchmod(fd, 0o600)
            if not _lock(fd):
                os.close(fd)
                return False
            # The previous holder may have removed the file between open and lock. Then
            # other processes would lock another file.
            if is_at(fd, self.path):
                break
            os.close(fd)
        self._fd = fd
        try:
            # One write of fixed width, so that readers never get half of an old pid.
            os.pwrite(fd, f"{os.getpid():<{PID_WIDTH}}\n".encode(), 0)
        except OSError as error:  # the file would stay, as after a kill
            self.release()
            raise CoschedError(f"{self.path}: {error.strerror}") from None
        return True

    def release(self) -> None:
        """Unlocks and removes the file, unless another file has replaced it."""
        if self._fd is not None:
            if is_at(self._fd, self.path):
                self.path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = None

    def is_in_place(self) -> bool:
        """Returns whether the lock is held, and other processes find its file."""
        return self._fd is not None and is_at(self._fd, self.path)

    def renew(self) -> bool:
        """Takes the lock under its name, from which its file was removed. Returns False if
        another process was quicker. Raises FileNotFoundError without the directory."""
        old = self._fd
        try:
            return self.acquire()
        finally:
            if old is not None:
                os.close(old)
                self._fd = None if self._fd == old else self._fd

    def leave_to_parent(self) -> None:
        """Closes a forked child's descriptor of the lock, which stays the parent's."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        # Not through a link, which another user may have made.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(self.path, flags, 0o600)
        except PermissionError:
            raise _not_ours(self.path) from None
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise _is_link(self.path) from None


def is_held(path: Path) -> bool:
    """Returns whether a live daemon holds the lock. CoschedError if the lock belongs to
    another user."""
    return lock_holder(path) is not None


def was_killed(path: Path) -> bool:
    """Returns whether the holder of a lock was killed: only then its file stays.
    CoschedError if the lock belongs to another user."""
    return os.path.exists(path) and not is_held(path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Holds the lock within the block; yields False if another live process has it."""
    lock = DaemonLock(path)
    try:
        mine = lock.acquire()
    except FileNotFoundError:
        mine = True  # without its directory no process can get it
    try:
        yield mine
    finally:
        lock.release()


def _lock(fd: int) -> bool:
    """Locks the file; returns False if a daemon holds it.

    ``lock_holder`` shares the lock for a moment; then this tries again."""
    while not has_locked(fd):
        if not _is_shared(fd):
            return False
        os.sched_yield()
    return True


def has_locked(fd: int) -> bool:
    """Locks an open file or directory; returns False if another process holds its lock."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_shared(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return True


def is_at(fd: int, path: Path) -> bool:
    """Returns whether the open file or directory is the one at this path."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _is_link(path: Path) -> CoschedError:
    return CoschedError(f"{path}: is a link; remove it")


def _not_ours(path: Path) -> CoschedError:
    return CoschedError(f"{path}: these daemons belong to another user")


def lock_holder(path: Path) -> int | None:
    """Returns the pid of the live daemon that holds the lock, or None.

    The pid counts only while the lock is held, so a reused pid is never returned.
    CoschedError if the lock belongs to another user.
    """
    try:
        # A FIFO of that name would keep this process waiting.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise _not_ours(path) from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _is_link(path) from None
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise _not_ours(path)
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = shown_text(os.pread(fd, 32, 0)).strip()
        return (
            proc.integer(text) if is_whole(text, 1, proc.PID_MOST) else None
        )  # the pid is not written yet
    else:
        return None
    finally:
        os.close(fd)


def hold_daemon(path: Path) -> int | None:
    """Returns a pidfd of the daemon that holds the lock, or None."""
    pid = lock_holder(path)
    fd = None if pid is None else open_pidfd(pid)
    # Checked again: it may have ended before, and its pid may have been reused.
    if fd is not None and lock_holder(path) != pid:
        os.close(fd)
        return None
    return fd
