"""Looks again and again, within a time, for what gives no event."""

from __future__ import annotations

import time
from collections.abc import Callable


def comes_true(condition: Callable[[], bool], within_s: float, poll_s: float) -> bool:
    """Waits for a condition, which is checked once at least and every ``poll_s`` seconds.
    Returns whether it came true within ``within_s`` seconds."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_s)
    return True
