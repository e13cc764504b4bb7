"""Finds the names and numbers of users."""

from __future__ import annotations

import pwd


def find_user_name(uid: int) -> str | None:
    """Returns the name of a user on this node; None if the user has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def named_user(uid: int) -> str:
    """Returns the name of a user, or ``uid NUMBER`` without one, for a sentence."""
    return find_user_name(uid) or f"uid {uid}"


def find_uid(name: str) -> int | None:
    """Returns the number of a user on this node; None if there is no such user."""
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):  # a name with a NUL is no name
        return None
