"""Limits the lines that one user can cause in the log, so that no user fills it.

A line that a user's doing causes has the user's uid: ``log.info(..., extra=by(uid))``. Root
and the daemons' own user have no limit.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

from cosched.core.units import NS_PER_S
from cosched.service.allowance import REST, Allowance

#: About so many lines of a user may come at once.
AT_ONCE = 100
#: Further lines come once in this time: in a day less than the log holds.
EACH_NS = 10 * NS_PER_S
_COST_NS = EACH_NS // (REST + 1)
#: The most users whose lines are counted while they are left out.
_COUNTED = 1024


def by(uid: int) -> dict[str, int]:
    """Returns the attribute of a line that a user's doing causes."""
    return {"uid": uid}


class UserLines(logging.Filter):
    """Leaves out lines of users who cause too many; the next line has their number."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        super().__init__()
        self._now_ns = now_ns
        self._allowance = Allowance(AT_ONCE * _COST_NS)
        self._left_out: dict[int, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether the line is written."""
        uid = getattr(record, "uid", None)
        if uid is None or uid in (0, os.geteuid()):
            return True
        now_ns = self._now_ns()
        if self._allowance.rest_ns(uid, now_ns):
            if len(self._left_out) >= _COUNTED:
                self._left_out.clear()
            self._left_out[uid] = self._left_out.get(uid, 0) + 1
            return False
        self._allowance.charge(uid, _COST_NS, now_ns)
        missing = self._left_out.pop(uid, 0)
        if missing:
            lines = "line" if missing == 1 else "lines"
            record.msg = f"{record.getMessage()} ({missing} {lines} of uid {uid} left out)"
            record.args = None
        return True
