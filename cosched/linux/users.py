"""Finds the names of users."""

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
