"""Generates workloads, so that trials and tests need no log.

They resemble real logs (Lublin and Feitelson, JPDC 2003) in a few features:

- arrivals: a Poisson process whose rate follows the hour of the day;
- sizes: a share of serial jobs; the others log-uniform, mostly rounded to powers of
  two;
- run times: Weibull with a shape below one, so many are short and few very long;
- walltimes: round numbers above the run time, often far above.

The arrivals are spread to give the requested load. One seed, one workload. Times are
whole seconds, as in logs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from random import Random

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.swf import COLUMN_LIMIT
from cosched.sim.logs.workload import Workload

MINUTE, HOUR, DAY = 60, 3600, 86400

#: How busy each hour of the day is, midnight first; 1 is the busiest.
BY_HOUR = (
    *(0.30, 0.25, 0.20, 0.20, 0.20, 0.20, 0.25, 0.35, 0.60, 0.85, 0.95, 1.00),
    *(0.90, 0.95, 1.00, 1.00, 0.95, 0.85, 0.70, 0.60, 0.55, 0.50, 0.45, 0.40),
)

#: Walltimes that users ask for.
ROUND_S = tuple(
    [5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE]
    + [hours * HOUR for hours in (1, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48)]
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parameters of a workload."""

    jobs: int  #: the number of jobs
    machine: int  #: nodes of the machine
    #: Node-seconds of the jobs / those of the machine while jobs are submitted.
    load: float = 0.7
    seed: int = 0  #: another seed draws another workload
    users: int = 50  #: the greatest number of users that submit jobs
    serial: float = 0.25  #: the share of the jobs with one node, 0 to 1
    power_of_two: float = 0.75  #: the share of the others that is rounded, 0 to 1
    run_shape: float = 0.55  #: shape of the run times' Weibull distribution
    run_scale_s: float = 4000.0  #: scale of the same distribution

    def __post_init__(self) -> None:
        for name in ("jobs", "machine", "users"):
            if getattr(self, name) < 1:
                raise CoschedError(f"a workload of {getattr(self, name)} {name}: want 1")
        if self.machine >= COLUMN_LIMIT:
            raise CoschedError(f"a machine of {self.machine} nodes: want less than 2^63")
        if not 0.0 < self.load <= 100.0:
            raise CoschedError(f"load {self.load:g}: want more than 0, at most 100")


def generate(recipe: Recipe) -> Workload:
    """Returns the workload of a recipe and its seed."""
    chance = Random(recipe.seed)
    sizes, runs = [], []
    for _ in range(recipe.jobs):
        sizes.append(_size(recipe, chance))
        runs.append(_run_s(recipe, chance))
    work = sum(size * run for size, run in zip(sizes, runs, strict=True))
    span_s = max(1.0, work / (recipe.machine * recipe.load))
    if span_s * NS_PER_S >= COLUMN_LIMIT:
        raise CoschedError(
            f"load {recipe.load:g}: the jobs would come in more than 290 years; raise it"
        )
    arrivals = sorted(_arrival_s(span_s, chance) for _ in range(recipe.jobs))
    workload = Workload(f"generated-{recipe.seed}", recipe.machine)
    rows = zip(arrivals, runs, sizes, strict=True)
    for number, (submit_s, run_s, size) in enumerate(rows, 1):
        # Few users submit most of the jobs.
        user = 1 + int(recipe.users * chance.random() ** 3)
        workload.append(
            number,
            submit_s * NS_PER_S,
            run_s * NS_PER_S,
            size,
            _walltime_s(run_s, chance) * NS_PER_S,
            user,
        )
    return workload


def _size(recipe: Recipe, chance: Random) -> int:
    if recipe.machine == 1 or chance.random() < recipe.serial:
        return 1
    exponent = chance.uniform(0.5, math.log2(recipe.machine))
    if chance.random() < recipe.power_of_two:
        exponent = round(exponent)
    return int(min(recipe.machine, max(1, round(2**exponent))))


def _run_s(recipe: Recipe, chance: Random) -> int:
    run_s = chance.weibullvariate(recipe.run_scale_s, recipe.run_shape)
    return min(ROUND_S[-1], max(1, round(run_s)))


def _arrival_s(span_s: float, chance: Random) -> int:
    while True:
        at_s = chance.random() * span_s
        if chance.random() < BY_HOUR[int(at_s % DAY // HOUR)]:
            return int(at_s)


def _walltime_s(run_s: int, chance: Random) -> int:
    guess_s = run_s / (1.0 - 0.95 * chance.random())
    return ROUND_S[min(len(ROUND_S) - 1, bisect_left(ROUND_S, guess_s))]
