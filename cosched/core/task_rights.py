"""Decides which user and which groups a task may have.

The user and the group of a job come from another machine: the agent of a node has vouched
for them. The user database of the node that starts the task has the last word.
"""

from __future__ import annotations

from cosched.core.bounds import GroupId, UserId
from cosched.core.decoding import convert
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple

ROOT = 0


class Account(NamedTuple):
    """A user in the user database of a node."""

    name: str  #: the user's name
    groups: frozenset[int]  #: the numbers of the primary group and all others


class Identity(NamedTuple):
    """The rights that a process takes."""

    uid: int  #: the user's number
    gid: int  #: the number of the primary group
    groups: frozenset[int]  #: the numbers of the supplementary groups


def check_ids(uid: int, gid: int) -> None:
    """Raises Malformed for numbers that no user or no group has. The kernel takes -1 and
    2^32-1 as "leave it as it is", so that root would stay root."""
    convert(uid, UserId, "the number of a user")
    convert(gid, GroupId, "the number of a group")


def identify(uid: int, gid: int, account: Account | None) -> Identity:
    """Returns the rights of a task. account: the user's on this node; None: it has none.

    Raises CoschedError for a user without an account, and for a group that the user
    database does not give to the user. Root may have any group, also without an account.
    """
    check_ids(uid, gid)
    if uid == ROOT:
        return Identity(uid, gid, (account.groups if account else frozenset()) | {gid})
    if account is None:
        raise CoschedError(f"user {uid} is not in the user database of this node")
    if gid not in account.groups:
        raise CoschedError(f"user {account.name} ({uid}) is not in group {gid} here")
    return Identity(uid, gid, account.groups)
