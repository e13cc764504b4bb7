"""Divides the time that a bench may take among its runs. Pure: callers give the clock."""

from __future__ import annotations

import math
from collections.abc import Callable


class Budget:
    """The time that all runs of a bench may take.

    whole_s: from now, in seconds; infinite: there is no bound. clock: returns the time in
    seconds.
    """

    def __init__(self, whole_s: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end_s = clock() + whole_s
        self._round_s = -math.inf  # the begin of the latest round

    @property
    def left_s(self) -> float:
        """The rest of the time."""
        return max(0.0, self._end_s - self._clock())

    def share_s(self, runs: int) -> float:
        """Returns how long the next one of ``runs`` runs may take, in tenths of seconds."""
        return round(self.left_s / runs, 1)

    def begin_round(self) -> None:
        """Notes that each way is run once from now on."""
        self._round_s = self._clock()

    def round_left_out(self) -> str:
        """Returns why no further round begins, in one line; empty if one like the latest
        would end in time."""
        took_s, left_s = self._clock() - self._round_s, self.left_s
        if took_s <= left_s:
            return ""
        return (
            f"no further round: the latest one took {took_s:.0f} s, and {left_s:.0f} s are "
            "left"
        )
