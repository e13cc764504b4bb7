"""Gives up root's rights for those of a user, and gives files to users.

All of cosched takes another user or another group here. The kernel takes the numbers -1 and
2^32-1 as "leave it as it is", and some calls can fail in part. So each number is checked
before, and the result afterwards.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.task_rights import ROOT, Account, Identity, check_ids

#: ``struct ucred``: a pid, and users and groups up to 2^32-2.
_UCRED = struct.Struct("iII")


class StillPrivileged(CoschedError):
    """The process may not have given up its rights. It must end and start nothing."""


def peer_ids(connection: socket.socket) -> tuple[int, int, int]:
    """Returns pid, user and group of the process that connected, from the kernel."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, gid = _UCRED.unpack(raw)
    return pid, uid, gid


def find_account(uid: int) -> Account | None:
    """Returns a user's account on this node; None if it has none. A directory service may
    be slow."""
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return None
    groups = os.getgrouplist(found.pw_name, found.pw_gid)
    return Account(found.pw_name, frozenset(groups))


def become(wanted: Identity) -> None:
    """Takes the rights of a user for good. Raises StillPrivileged if the process has others
    afterwards: the caller must end it."""
    check_ids(wanted.uid, wanted.gid)
    try:
        os.setgroups(sorted(wanted.groups))
        os.setresgid(wanted.gid, wanted.gid, wanted.gid)
        os.setresuid(wanted.uid, wanted.uid, wanted.uid)
    except OSError as error:
        raise StillPrivileged(
            f"cannot take the rights of user {wanted.uid}: {error.strerror}"
        ) from None
    if (
        os.getresuid() != (wanted.uid,) * 3
        or os.getresgid() != (wanted.gid,) * 3
        or set(os.getgroups()) != wanted.groups
        or (wanted.uid != ROOT and _can_be_root())
    ):
        raise StillPrivileged(f"has other rights than those of user {wanted.uid}")


def _can_be_root() -> bool:
    """Returns whether this process can take root's rights. It has them afterwards then."""
    try:
        os.setresuid(ROOT, ROOT, ROOT)
    except PermissionError:
        return False
    return True


def give(path: Path, uid: int, gid: int) -> None:
    """Gives a file to a user, and follows no link. Raises Malformed for numbers that no
    user or no group has, and OSError."""
    check_ids(uid, gid)
    os.chown(path, uid, gid, follow_symlinks=False)
