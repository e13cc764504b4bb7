"""Shared-memory objects by name, in a directory where every user may put what he likes.

An object is made under a name that nobody can guess, given all its memory, and only then
its real name: so it is whole or not there, no name that somebody planted stands in the way
of root, and a full /dev/shm is an error here and not a SIGBUS at some later access.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import posix_ipc

SHM = Path("/dev/shm")


def path_of(name: str) -> Path:
    """Where the object ``/NAME`` is."""
    return SHM / name.removeprefix("/")


def make_object(name: str, size: int, uid: int, gid: int) -> int:
    """A descriptor of a new object of ``size`` zero bytes, mode 0600, of this user.

    It takes the place of whatever had the name. OSError if it cannot be had: ENOSPC where
    there is no memory, EPERM or EACCES where the name is that of another user's object and
    this process may not remove it.
    """
    path = path_of(name)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with _as_os_errors(name):
        fd = int(posix_ipc.SharedMemory(f"/{fresh.name}", posix_ipc.O_CREX, 0o600).fd)
    try:
        os.fchmod(fd, 0o600)
        os.posix_fallocate(fd, 0, size)
        if (uid, gid) != (os.geteuid(), os.getegid()):
            os.fchown(fd, uid, gid)
        _take_name(fresh, path)
    except BaseException:
        os.close(fd)
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        raise
    return fd


def open_object(name: str) -> int:
    """A descriptor of an existing object. OSError, also for what is no plain file."""
    with _as_os_errors(name):
        fd = int(posix_ipc.SharedMemory(name).fd)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a shared-memory object", name)
    return fd


def remove_object(name: str) -> None:
    """Removes the name; whoever has the object open keeps it. One that is gone, or that
    another user planted and only he can remove, is left alone: it keeps nobody from making
    his own."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError, PermissionError):
        path_of(name).unlink()


@contextlib.contextmanager
def _as_os_errors(name: str) -> Iterator[None]:
    try:
        yield
    except posix_ipc.ExistentialError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from None
    except posix_ipc.PermissionsError:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name) from None
    except (posix_ipc.Error, ValueError) as error:
        raise OSError(errno.EINVAL, str(error), name) from None


def _take_name(fresh: Path, path: Path) -> None:
    try:
        fresh.rename(path)
    except IsADirectoryError:
        # Not emptied: it is somebody else's, and so is what is in it.
        path.rename(path.with_name(f"planted.{path.name}.{secrets.token_hex(8)}"))
        fresh.rename(path)
