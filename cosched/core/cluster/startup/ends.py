"""Limits how long a steward may take to end after its job has to end.

A steward first ends its tasks. At the job's root it then writes what other nodes send, so
its own end is awaited only once it is closed: nothing more comes for it to write.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

#: How long descendants of the tasks may take to end after the tasks.
DESCENDANTS_LINGER_S = 2.0
#: How long the steward's own work may take, also on a node with much load.
WORK_S = 8.0


def end_limit_s(grace_s: float) -> float:
    """Returns how long a steward may take to end its tasks. grace_s: between SIGTERM and
    SIGKILL."""
    return grace_s + DESCENDANTS_LINGER_S + WORK_S


class Awaited(Enum):
    """Names the part of a node's work that must be gone."""

    TASKS = "tasks"
    STEWARD = "steward"


class Check(Struct, frozen=True):
    """Check after this time what is awaited; if it is still there, kill the steward."""

    after_s: float  #: seconds
    awaited: Awaited  #: must be gone by then

    def describe(self, node: str) -> str:
        """Returns one line about a steward that was killed."""
        return f"the job's steward on {node} did not end in {self.after_s:.0f} s: killed it"


class EndLimit:
    """The limit of one steward."""

    def __init__(self) -> None:
        self._ordered = False
        self._closed = False

    def order(self, grace_s: float) -> Check | None:
        """Orders the end of the job; returns the check for it, once."""
        if self._ordered:
            return None
        self._ordered = True
        awaited = Awaited.STEWARD if self._closed else Awaited.TASKS
        return Check(end_limit_s(grace_s), awaited)

    def close(self) -> Check | None:
        """Closes the steward; returns the check for it if its job has to end, once. Without
        an order the steward may write as long as it likes."""
        if self._closed:
            return None
        self._closed = True
        return Check(WORK_S, Awaited.STEWARD) if self._ordered else None
