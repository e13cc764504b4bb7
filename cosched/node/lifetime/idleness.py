"""Measures how long private daemons have had nothing to do."""

from __future__ import annotations

import time
from collections.abc import Callable

from cosched.core.units import NS_PER_S

#: How long private daemons wait for their first job before they end.
PRIVATE_GRACE_NS = 15 * NS_PER_S
#: How long private daemons stay after the last job, so that the next job finds them.
PRIVATE_LINGER_NS = NS_PER_S


class Idleness:
    """The time since private daemons were last needed.

    is_needed: returns whether a job or a lease needs them now.
    """

    def __init__(self, is_needed: Callable[[], bool]) -> None:
        self._is_needed = is_needed
        self._since_ns = time.monotonic_ns() + PRIVATE_GRACE_NS - PRIVATE_LINGER_NS

    def note_activity(self) -> None:
        """Notes that a job came, so the grace for the first job is over."""
        self._since_ns = time.monotonic_ns()

    def is_over(self) -> bool:
        """Returns whether the daemons have been idle long enough to end."""
        if self._is_needed():
            self.note_activity()
        return time.monotonic_ns() - self._since_ns > PRIVATE_LINGER_NS
