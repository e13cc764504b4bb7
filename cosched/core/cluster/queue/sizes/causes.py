"""Explains why the plan changed the size of a job, for ``cosched why``."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from cosched.core.cluster.queue.job import JobId


class Why(Enum):
    """Why a job gives or gets nodes."""

    HARVEST = "another job needs them"
    SURPLUS = "another job has less than it prefers"
    IDEAL = "it has more than its ideal"
    OUT_OF_SERVICE = "they are out of service"
    MINIMUM = "it has less than its minimum"
    GIFT = "they are free"


class Cause(Struct, frozen=True, gc=False):
    """Why a plan changed the size of a job once."""

    by: int  #: the nodes that it gets; below 0: that it gives
    why: Why  #: the rule
    bound: int = 0  #: the minimum, the preferred size or the ideal that decided
    to: JobId = 0  #: with HARVEST and SURPLUS: the job that gets the nodes
    free: int = 0  #: with these: the nodes that were free for that job

    def __str__(self) -> str:
        count = abs(self.by)
        nodes = f"{count} node{'' if count == 1 else 's'}"
        match self.why:
            case Why.HARVEST:
                minimum = f"its minimum was {self.bound}, {self.free} were free"
                return f"gave {nodes} to job {self.to}: {minimum}"
            case Why.SURPLUS:
                prefers = f"it prefers {self.bound}, {self.free} were free"
                return f"gave {nodes} to job {self.to}: {prefers}"
            case Why.IDEAL:
                return f"gave {nodes}: it wants {self.bound} at most"
            case Why.OUT_OF_SERVICE:
                return f"gave {nodes} out of service"
            case Why.MINIMUM:
                return f"got {nodes}: it wants {self.bound} at least"
            case Why.GIFT:
                return f"got {count} free node{'' if count == 1 else 's'}"


def reason(causes: Sequence[Cause]) -> str:
    """Returns in one line why a job was ordered to change its size.

    A plan gives free nodes one by one; the line has their sum.
    """
    counts: dict[Cause, int] = {}
    for cause in causes:
        kind = replace(cause, by=0)
        counts[kind] = counts.get(kind, 0) + cause.by
    return "; ".join(str(replace(kind, by=by)) for kind, by in counts.items())
