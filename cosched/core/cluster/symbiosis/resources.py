"""What limits a job, as its user says, and what that lets one expect (section 3.2).

A speedup is that of the primary application on one half of each node it uses while the
background one has the other half, against its run on half as many nodes of its own.

- Both limited by the same resource of a node (memory, io): expected to slow down.
- The primary limited by a resource of a node, the background not by that: symbiotic.
- Else nothing is known: the network is not a node's, and the CPU is not shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

from cosched.core.errors import CoschedError


class Resource(str, Enum):
    """What limits a job."""

    CPU = "cpu"
    MEMORY = "memory"
    IO = "io"
    NETWORK = "network"


class Expectation(str, Enum):
    """What users' labels say of a primary application beside a background one."""

    SLOW = "slow"
    SYMBIOTIC = "symbiotic"
    UNKNOWN = "unknown"


Limits: TypeAlias = "frozenset[Resource]"
Labels: TypeAlias = "Mapping[str, Limits]"

#: Jobs on the two halves of a node share these.
SHARED: Limits = frozenset({Resource.MEMORY, Resource.IO})


def expected(primary: Limits, background: Limits) -> Expectation:
    """What the users' labels let one expect of the primary."""
    own = primary & SHARED
    if own & background:
        return Expectation.SLOW
    return Expectation.SYMBIOTIC if own else Expectation.UNKNOWN


def parse_limits(names: object, what: str) -> Limits:
    """A label from a list of names; raises CoschedError, which names ``what``."""
    known = [resource.value for resource in Resource]
    if not isinstance(names, list) or not names:
        raise CoschedError(f"{what}: want a list of one or more of {', '.join(known)}")
    for name in names:
        if name not in known:
            raise CoschedError(f"{what}: '{name}' is none of {', '.join(known)}")
    return frozenset(Resource(name) for name in names)
