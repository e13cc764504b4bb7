"""Finds the users who can change what lies behind a path, and acts with their rights.

A folder of another user can hold links, planted files and false process ids. Root's
commands therefore act in such a folder as its owner: a link then leads only to files that
the owner could change, and a signal reaches only the owner's processes.

Each folder from the root of the file system to the path counts, and each link in between.
A folder that others can write, such as /tmp, counts by its sticky bit: then the owner of
the next folder alone can replace that one. Without the bit all users can.
"""

from __future__ import annotations

import contextlib
import functools
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.linux import proc
from cosched.linux.users import named_user

ROOT_UID = 0
_MOST_LINKS = 40
_NOBODYS_GROUP = 65534


class Owners(NamedTuple):
    """The users who can change what lies behind a path."""

    real: Path  #: the path without links
    #: The numbers of the owners of all folders and links, root left out.
    users: frozenset[int]
    #: The first folder in which still other users can replace names; None: there is none.
    open_at: Path | None
    linked_by: Path | None  #: the first link of a user other than root; None: there is none


def owners_of(path: Path, below: Path = Path("/")) -> Owners:
    """Returns who can change what lies behind a path, as far as it exists. below: this
    folder and those above it do not count. Raises CoschedError if the path cannot be looked
    at."""
    users: set[int] = set()
    open_at: Path | None = None
    linked_by: Path | None = None
    shared = False  # each user can make names in the folder of this place
    for place, found in _places(Path(os.path.abspath(path))):
        if below.is_relative_to(place) and below != Path("/"):
            continue
        if found.st_uid != ROOT_UID and (shared or not _is_unmapped(found.st_uid)):
            users.add(found.st_uid)
        shared = _is_sticky(found)
        if stat.S_ISLNK(found.st_mode):
            linked_by = linked_by or (place if found.st_uid != ROOT_UID else None)
        elif open_at is None and is_open_to_others(found) and not _is_sticky(found):
            open_at = place
    real = Path(os.path.realpath(path))
    return Owners(real, frozenset(users), open_at, linked_by)


def is_open_to_others(found: os.stat_result) -> bool:
    """Returns whether users beside root and the owner may write a file or folder. A group
    that has only the owner in it, as on many systems, does not count."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_group_of_one(
        found.st_gid, found.st_uid
    )


@contextlib.contextmanager
def acting_as_owner(path: Path) -> Iterator[None]:
    """Gives root, within the block, only the rights of the user who can change ``path``.

    Other users keep their rights. Raises CoschedError if several users can change it, or
    if an ordinary user's command comes to a folder of another ordinary user.
    """
    owners = owners_of(path)
    if os.geteuid() != ROOT_UID:
        _refuse_other_users(path)
        yield
        return
    if owners.open_at is not None:
        raise _open(owners.open_at)
    if len(owners.users) > 1:
        names = " and ".join(sorted(map(named_user, owners.users)))
        raise CoschedError(f"{path}: {names} can both change it; let its owner do this")
    if not owners.users:
        yield
        return
    try:
        with _rights_of(next(iter(owners.users))):
            yield
    except PermissionError as error:
        where = error.filename or path
        raise CoschedError(f"{where}: {error.strerror}, as its owner") from None


def acts_for_another() -> bool:
    """Returns whether this is root in a block of ``acting_as_owner``."""
    _, effective, saved = os.getresuid()
    return saved != effective


def refuse_foreign(path: Path) -> None:
    """Raises CoschedError for root if another user can change what lies behind ``path``."""
    if os.geteuid() != ROOT_UID:
        return
    owners = owners_of(path)
    if owners.users:
        names = " and ".join(sorted(map(named_user, owners.users)))
        raise CoschedError(
            f"{path}: {names} can change it; root needs a directory of root's, such as "
            "/run/cosched"
        )
    if owners.open_at is not None:
        raise _open(owners.open_at)


def refuse_open(*paths: Path) -> None:
    """Raises CoschedError for a file or folder that users beside root and its owner may
    change, and for one in a closed folder. A missing one is not looked at."""
    for path in paths:
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CoschedError(f"{path}: {error.strerror}; use another --run-dir") from None
        if is_open_to_others(found):
            raise CoschedError(f"{path}: other users can change it; chmod go-w it")


def _refuse_other_users(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        owner = path.stat().st_uid
        if owner not in (ROOT_UID, os.geteuid()):
            raise CoschedError(f"{path}: belongs to {named_user(owner)}")


def without_links(path: Path) -> Path:
    """Returns an absolute path without links. Raises CoschedError for root if a link of
    another user is on the way."""
    owners = owners_of(path)
    if owners.linked_by is not None and os.geteuid() == ROOT_UID:
        raise CoschedError(
            f"{owners.linked_by}: is a link of another user; name its target"
        )
    return owners.real


@contextlib.contextmanager
def _rights_of(uid: int) -> Iterator[None]:
    """Takes the rights of a user, for the kernel's checks of files and of signals."""
    groups = os.getgroups()
    users, gids = os.getresuid(), os.getresgid()
    gid, more = _groups_of(uid)
    try:
        os.setgroups(more)
        os.setresgid(gid, gid, ROOT_UID)
        os.setresuid(uid, uid, ROOT_UID)
        if os.getresuid() != (uid, uid, ROOT_UID) or os.getresgid()[:2] != (gid, gid):
            raise CoschedError(f"cannot take the rights of {named_user(uid)}")
        yield
    finally:
        os.setresuid(*users)
        os.setresgid(*gids)
        os.setgroups(groups)


def _groups_of(uid: int) -> tuple[int, list[int]]:
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return _NOBODYS_GROUP, []
    return user.pw_gid, os.getgrouplist(user.pw_name, user.pw_gid)


def _places(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields each folder and link on the way to an absolute path, as far as it exists."""
    current = Path("/")
    yield current, current.lstat()
    left = list(path.parts[1:])
    links = 0
    while left:
        name = left.pop(0)
        if name == "..":  # in the text of a link
            current = current.parent
            continue
        place = current / name
        try:
            found = place.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise CoschedError(f"{place}: {error.strerror}") from None
        yield place, found
        if not stat.S_ISLNK(found.st_mode):
            current = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise CoschedError(f"{path}: too many links")
        target = Path(os.readlink(place))
        if target.is_absolute():
            current = Path("/")
        left[:0] = [part for part in target.parts if part != "/"]


def _is_sticky(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_ISVTX)


@functools.cache
def _is_unmapped(uid: int) -> bool:
    """Returns whether the number stands for users outside of this user namespace, such as
    the root of the machine."""
    if uid != proc.integer(Path("/proc/sys/kernel/overflowuid").read_text()):
        return False
    lines = Path("/proc/self/uid_map").read_text().splitlines()
    maps = [[proc.integer(word) for word in line.split()] for line in lines]
    return not any(first <= uid < first + count for first, _, count in maps)


def _is_group_of_one(gid: int, uid: int) -> bool:
    if gid == ROOT_UID:
        return True
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:
        return False
    same = user.pw_gid == gid and group.gr_name == user.pw_name
    return same and set(group.gr_mem) <= {user.pw_name}


def _open(folder: Path) -> CoschedError:
    return CoschedError(
        f"{folder}: all users can replace what is in it; use another directory, or chmod it"
    )
