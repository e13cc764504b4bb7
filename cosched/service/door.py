"""Shuts users out of a socket for a while, by the access control list of its file.

A daemon learns a connection's user only after it has accepted it. So a user who connects
all the time takes its time, whatever it does afterwards. With an entry in the list the
kernel refuses the user's connections itself (EACCES), at no cost for the daemon.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

_ATTRIBUTE = "system.posix_acl_access"
#: The format of the attribute (linux/posix_acl_xattr.h): a version, then entries of a tag,
#: permissions and an id.
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")
_OWNER, _USER, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NO_ID = 0xFFFFFFFF
#: More users at once need more room than some file systems have.
SHUT_MOST = 64


class Door:
    """The list of one socket's file, whose permissions are ``mode``."""

    def __init__(self, path: Path, mode: int) -> None:
        self._path = path
        self._mode = mode
        self._shut: set[int] = set()

    def shut(self, uid: int) -> None:
        """Lets the kernel refuse the user. Raises OSError, and changes nothing, if the file
        system has no such lists or this one is full."""
        if len(self._shut) >= SHUT_MOST:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        self._write({*self._shut, uid})
        self._shut.add(uid)

    def open(self, uid: int) -> None:
        """Admits the user again."""
        self._shut.discard(uid)
        with contextlib.suppress(FileNotFoundError):  # its name was removed
            self._write(self._shut)

    def _write(self, shut: Iterable[int]) -> None:
        os.setxattr(self._path, _ATTRIBUTE, encode_list(self._mode, shut))


def encode_list(mode: int, shut: Iterable[int]) -> bytes:
    """Returns a list with the permissions of ``mode``, and none for the users ``shut``."""
    group = (mode & stat.S_IRWXG) >> 3
    entries = [
        (_OWNER, (mode & stat.S_IRWXU) >> 6, _NO_ID),
        *((_USER, 0, uid) for uid in sorted(shut)),
        (_GROUP, group, _NO_ID),
        (_MASK, group, _NO_ID),
        (_OTHER, mode & stat.S_IRWXO, _NO_ID),
    ]
    return _VERSION + b"".join(_ENTRY.pack(*entry) for entry in entries)
