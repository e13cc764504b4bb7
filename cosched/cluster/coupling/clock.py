"""Gives the time of a domain: close to the wall clock, but it never steps."""

from __future__ import annotations

import time

from cosched.core.units import NS_PER_S


class DomainClock:
    """Continues from the wall clock at its start by the monotonic clock, so that a step of
    the wall clock changes no limit of a job."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        """Returns the time since 1970 in ns."""
        return time.monotonic_ns() + self._offset_ns


def clock_time(at_ns: int) -> str:
    """Returns a time since 1970, in ns, as a clock on the wall shows it."""
    return time.strftime("%H:%M:%S", time.localtime(at_ns / NS_PER_S))
