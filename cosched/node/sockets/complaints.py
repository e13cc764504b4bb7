"""Logs misbehaviour of users, at most one line per user and minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from cosched.core.units import NS_PER_S

log = logging.getLogger(__name__)

QUIET_NS = 60 * NS_PER_S
_REMEMBERED = 1024


class Complaints:
    """Logs a line about a user once in ``QUIET_NS``, so no user can fill the log."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._last_ns: dict[tuple[int | None, str], int] = {}

    def about(self, uid: int | None, what: str) -> None:
        """Logs ``what`` as a warning; ``uid`` None: it concerns no single user."""
        now_ns = self._now_ns()
        if now_ns - self._last_ns.get((uid, what), -QUIET_NS) < QUIET_NS:
            return
        if len(self._last_ns) >= _REMEMBERED:
            self._last_ns.clear()
        self._last_ns[uid, what] = now_ns
        log.warning("%s%s", what, "" if uid is None else f" (uid {uid})")
