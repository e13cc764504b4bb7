"""Defines users' labels (limited by memory, ...) and the effects that they predict.

The primary application runs on one half of each of its nodes, the background application
on the other half. The speedup compares that with a run on half as many whole nodes.

- Both are limited by the same resource of a node (memory, io): expected to slow down.
- Only the primary is limited by such a resource: symbiotic.
- Otherwise unknown: a node does not own the network, and halves do not share CPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

from cosched.core.errors import CoschedError


class Resource(str, Enum):
    """A resource that may limit a job."""

    CPU = "cpu"
    MEMORY = "memory"
    IO = "io"
    NETWORK = "network"


class Expectation(str, Enum):
    """The effect of a background application on a primary one, by users' labels."""

    SLOW = "slow"
    SYMBIOTIC = "symbiotic"
    UNKNOWN = "unknown"


Limits: TypeAlias = "frozenset[Resource]"
Labels: TypeAlias = "Mapping[str, Limits]"

#: Jobs on the two halves of a node share these.
SHARED: Limits = frozenset({Resource.MEMORY, Resource.IO})


def effect_by_labels(primary: Limits, background: Limits) -> Expectation:
    """Returns the expected effect on the primary."""
    own = primary & SHARED
    if own & background:
        return Expectation.SLOW
    return Expectation.SYMBIOTIC if own else Expectation.UNKNOWN


def parse_limits(names: object, what: str) -> Limits:
    """Returns a label from a list of names; ``what`` names it in a CoschedError."""
    known = [resource.value for resource in Resource]
    if not isinstance(names, list) or not names:
        raise CoschedError(f"{what}: want a list of one or more of {', '.join(known)}")
    for name in names:
        if name not in known:
            raise CoschedError(f"{what}: '{name}' is not one of {', '.join(known)}")
    return frozenset(Resource(name) for name in names)
