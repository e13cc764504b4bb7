"""Checks the names of a domain's members, and of what its jobs may need."""

from __future__ import annotations

import re

#: The controller's name among the members.
CONTROLLER = "controller"
#: The name of each private domain.
PRIVATE = "private"
#: As long as a host name may be.
NODE_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
#: The name of a feature, a count or a licence.
NEED_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,62}"
#: Names of the controller's key, of the domain's directory and of the lab's.
RESERVED = frozenset((CONTROLLER, "domain", "lab"))
_OTHER = r"[^A-Za-z0-9_.-]+"
_SUFFIX = "-node"


def member_of(hostname: str) -> str:
    """Returns the name of a machine as a node of a domain: its host name, or one made from
    it if no node can have that name."""
    if can_be_node(hostname):
        return hostname
    clean = re.sub(_OTHER, "-", hostname).strip("-._")
    return clean[: 64 - len(_SUFFIX)] + _SUFFIX if clean else _SUFFIX[1:]


def can_be_node(name: str) -> bool:
    """Returns whether a node can have this name."""
    return name not in RESERVED and re.fullmatch(NODE_NAME, name) is not None
