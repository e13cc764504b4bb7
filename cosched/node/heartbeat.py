"""Beats for a scheduler daemon: the regular work between the events."""

from __future__ import annotations

import time
from collections.abc import Callable

from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.service.loop import Loop

#: The time between two beats.
HEARTBEAT_NS = 200 * NS_PER_MS
#: The time between two looks at what users and other programs did, and between two beats of
#: a quiet daemon: no process reads these.
INSPECT_NS = NS_PER_S


class Heartbeat:
    """Calls two functions again and again while the daemon's loop runs.

    beat: is called at each beat. inspect: after it, at most once in INSPECT_NS. is_quiet:
    returns whether the next beat may be INSPECT_NS away.
    """

    def __init__(
        self,
        loop: Loop,
        beat: Callable[[], None],
        inspect: Callable[[], None],
        is_quiet: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._beat = beat
        self._inspect = inspect
        self._is_quiet = is_quiet
        self._next_ns = 0
        self._inspect_ns = 0

    def start(self) -> None:
        """Beats now, and from now on."""
        self._ring()

    def hurry(self) -> None:
        """Beats within HEARTBEAT_NS also if the daemon was quiet."""
        if time.monotonic_ns() + HEARTBEAT_NS < self._next_ns:
            self._ring_in(HEARTBEAT_NS)

    def _ring(self) -> None:
        now_ns = time.monotonic_ns()
        if now_ns < self._next_ns:
            return  # an earlier one has taken its place
        self._beat()
        if now_ns >= self._inspect_ns:
            self._inspect_ns = now_ns + INSPECT_NS
            self._inspect()
        self._ring_in(INSPECT_NS if self._is_quiet() else HEARTBEAT_NS)

    def _ring_in(self, within_ns: int) -> None:
        self._next_ns = time.monotonic_ns() + within_ns
        self._loop.call_at(self._next_ns, self._ring)
