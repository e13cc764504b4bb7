"""Keeps a forecast of the queue for some time, so that requests for it cost little.

A forecast plays the whole queue through: with ten thousand jobs that takes seconds, in
which the controller does nothing else. All users get the same one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from cosched.core.cluster.queue.job import JobId

#: A forecast that took less time is not kept.
CHEAP_S = 0.05
#: How long another one is kept, in multiples of the time that it took.
KEPT_TIMES = 19


class Forecasts:
    """The forecasts of a queue. make: makes one. clock_s: a clock that never goes back."""

    def __init__(
        self,
        make: Callable[[], Mapping[JobId, int]],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._clock_s = clock_s
        self._last: Mapping[JobId, int] = {}
        self._until_s = clock_s()

    def get(self) -> Mapping[JobId, int]:
        """Returns when jobs are expected to start, ns, as of a short time ago: some of them
        may have started since."""
        began_s = self._clock_s()
        if began_s >= self._until_s:
            self._last = self._make()
            ended_s = self._clock_s()
            took_s = ended_s - began_s
            self._until_s = ended_s + (KEPT_TIMES * took_s if took_s > CHEAP_S else 0.0)
        return self._last
