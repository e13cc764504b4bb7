"""Draws the times at which the jobs of a workload are submitted. Pure.

An ``[arrivals]`` table sets them for all jobs of a file::

    [arrivals]
    poisson = 1.5
    seed = 7
    shuffle = true

    poisson    the mean seconds between two submissions; the times between them are drawn
               from an exponential distribution, so the arrivals are a Poisson process
    seed       another seed draws other times
    shuffle    jobs arrive in a drawn order; otherwise in the order of the file

The first job is submitted at once. One seed draws the same for all arms, runs and machines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from cosched.bench.workload import fields
from cosched.bench.workload.fields import Table

INTERVAL_MAX_S = 86400.0
SEED_MAX = 2**32 - 1

_KEYS = ("poisson", "seed", "shuffle")


@dataclass(frozen=True, slots=True)
class Arrivals:
    """An ``[arrivals]`` table. ``interval_s``: the mean between two submissions."""

    interval_s: float
    seed: int = 1
    shuffle: bool = False

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


def parse_arrivals(table: Mapping[str, object], where: str) -> Arrivals:
    """Reads an ``[arrivals]`` table; CoschedError names ``where``."""
    reader = Table(table, where, _KEYS)
    return Arrivals(
        interval_s=reader.require("poisson", fields.seconds(0.001, INTERVAL_MAX_S)),
        seed=reader.get("seed", fields.whole(0, SEED_MAX), 1),
        shuffle=reader.get("shuffle", fields.truth, False),
    )
