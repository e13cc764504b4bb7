"""Writes files so that each reader finds the former file or the whole new one.

A full disk or a kill in the middle leaves the former file as it was. Nothing else in
cosched opens a file to replace what is in it; ``tests/unit/linux/test_whole_files.py`` has
the list of the files that are not written as a whole, and why.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from cosched.core.errors import CoschedError

#: The mode of files that other users may read.
READABLE = 0o644
PRIVATE = 0o600


def write_whole(path: Path, data: bytes | str, mode: int = READABLE) -> None:
    """Replaces a file, which is on the disk then. mode: its permissions, under any umask.

    A link of that name is replaced, not followed. Raises CoschedError if the file cannot
    be written; the former one is unchanged then."""
    with writing_whole(path, mode) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def writing_whole(path: Path, mode: int = READABLE) -> Iterator[BinaryIO]:
    """Yields a file to write into, which takes the place of ``path`` at the end of the
    block. An error in the block leaves ``path`` as it was. The rest as ``write_whole``."""
    fresh = path.with_name(f".{path.name[:200]}.{os.urandom(4).hex()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(fresh, flags, PRIVATE), "wb") as file:
            try:
                yield file
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
                fresh.replace(path)
            except BaseException:
                fresh.unlink(missing_ok=True)
                raise
        _sync_folder(path.parent)
    except OSError as error:
        raise CoschedError(f"{path}: cannot be written: {error.strerror}") from None


def is_replaceable(path: Path) -> bool:
    """Returns whether ``path`` is a regular file or missing, in a folder that takes a new
    file: a device or a pipe is written into instead."""
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return True
    return regular and os.access(path.resolve().parent, os.W_OK)


def mode_to_keep(path: Path) -> int:
    """Returns the permissions of a file, or those that a new one gets by this process's
    umask."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        umask = os.umask(0o077)
        os.umask(umask)
        return 0o666 & ~umask


def _sync_folder(folder: Path) -> None:
    """Lets the new name reach the disk. Some file systems cannot do it for a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
