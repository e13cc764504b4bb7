"""Makes, opens and removes shared-memory objects in /dev/shm, where each user can make
files.

An object is made under a random name, then gets all its memory, and only then its real
name. An object of that name is therefore complete. A file that another user made under that
name cannot stop root. A full /dev/shm is an error here, not a SIGBUS at a later access.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import posix_ipc

from cosched.core.task_rights import check_ids

SHM = Path("/dev/shm")


def path_of(name: str) -> Path:
    """Returns the path of the object ``/NAME``."""
    return SHM / name.removeprefix("/")


def make_object(name: str, size: int, uid: int, gid: int) -> int:
    """Makes an object of ``size`` zero bytes, mode 0600, of this user.

    Returns its descriptor. It replaces an older object of that name. Raises OSError: ENOSPC
    if there is no memory; EPERM or EACCES if another user's object has the name and this
    process cannot remove it.
    """
    path = path_of(name)
    fresh = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    with _as_os_errors(name):
        fd = int(posix_ipc.SharedMemory(f"/{fresh.name}", posix_ipc.O_CREX, 0o600).fd)
    try:
        os.fchmod(fd, 0o600)
        os.posix_fallocate(fd, 0, size)
        if (uid, gid) != (os.geteuid(), os.getegid()):
            check_ids(uid, gid)
            os.fchown(fd, uid, gid)
        _take_name(fresh, path)
    except BaseException:
        os.close(fd)
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        raise
    return fd


def open_object(name: str) -> int:
    """Returns a descriptor of an existing object. Raises OSError, also if it is not a plain
    file."""
    with _as_os_errors(name):
        fd = int(posix_ipc.SharedMemory(name).fd)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a shared-memory object", name)
    return fd


def remove_object(name: str) -> None:
    """Removes the name, if it exists. Processes that have opened the object keep it. A file
    of another user that this process cannot remove stays: ``make_object`` reports it."""
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
        # Moved, not deleted: the directory and its contents belong to another user.
        path.rename(path.with_name(f"planted.{path.name}.{os.urandom(8).hex()}"))
        fresh.rename(path)
