"""Draws the times at which the jobs of a workload are submitted. Pure.

An ``[arrivals]`` table sets them for all jobs of a file::

    [arrivals]
    poisson = 1.5
    seed = 7
    shuffle = true

The times between two submissions are drawn from an exponential distribution, so the
arrivals are a Poisson process. The first job is submitted at once. One seed draws the same
for all arms, runs and machines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from cosched.core.config.kinds import SWITCH, seconds, whole
from cosched.core.config.tables import REQUIRED, key

INTERVAL_MAX_S = 86400.0
SEED_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Arrivals:
    """An ``[arrivals]`` table. ``interval_s``: the mean between two submissions."""

    interval_s: float = key(
        seconds(0.001, INTERVAL_MAX_S),
        REQUIRED,
        "The mean time between two submissions.",
        name="poisson",
    )
    seed: int = key(whole(0, SEED_MAX), 1, "Another seed draws other times.")
    shuffle: bool = key(SWITCH, False, "Whether jobs arrive in a drawn order.")

    def starts_s(self, jobs: int) -> Sequence[float]:
        """Returns the time of submission of each of the jobs, in the order of the file."""
        chance = Random(self.seed)
        intervals_s = [
            -self.interval_s * math.log(1.0 - chance.random()) for _ in range(1, jobs)
        ]
        times_s = list(accumulate(intervals_s, initial=0.0))
        if not self.shuffle:
            return times_s
        order = sorted(range(jobs), key=[chance.random() for _ in range(jobs)].__getitem__)
        by_job = dict(zip(order, times_s, strict=True))
        return [by_job[job] for job in range(jobs)]
