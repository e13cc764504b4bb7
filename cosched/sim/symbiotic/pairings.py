"""Pairs applications, each pair on the halves of the same nodes (section 3.3).

With an odd number of applications, one has no neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean
from typing import TypeAlias

from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import Expectation, Labels, effect_by_labels
from cosched.sim.symbiotic.matrix import Model, SpeedupMatrix

Pair: TypeAlias = "tuple[str, str | None]"  #: (primary, background or None)
Pairs: TypeAlias = "tuple[Pair, ...]"


def schedules(names: Sequence[str]) -> Iterator[Pairs]:
    """Yields every way to run the applications in pairs."""
    if not names:
        yield ()
        return
    first, *others = names
    for place, partner in enumerate(others):
        for rest in schedules([*others[:place], *others[place + 1 :]]):
            yield ((first, partner), *rest)
    if len(others) % 2 == 0:
        for rest in schedules(others):
            yield ((first, None), *rest)


def user_guided(names: Sequence[str], labels: Labels) -> Iterator[Pairs]:
    """Yields the schedules in which no application is expected to slow down."""
    for schedule in schedules(names):
        if all(not warned(labels, pair) for pair in schedule):
            yield schedule


def warned(labels: Labels, pair: Pair) -> bool:
    """Returns whether users' labels warn of this pair, in either order."""
    one, other = pair
    if other is None:
        return False
    return effect_by_labels(labels[one], labels[other]) is Expectation.SLOW


def both_orders(schedule: Pairs) -> Iterator[Pair]:
    """Yields each application of a schedule as the primary."""
    for one, other in schedule:
        yield one, other
        if other is not None:
            yield other, one


def throughput(matrix: SpeedupMatrix, schedule: Pairs) -> float:
    """Returns the mean speedup of all applications of a schedule."""
    return fmean(matrix.speedup(*pair) for pair in both_orders(schedule))


def outcomes(model: Model) -> dict[Expectation, dict[Pair, float]]:
    """Returns the speedup of each (primary, background), by its expectation."""
    found: dict[Expectation, dict[Pair, float]] = {
        expectation: {} for expectation in Expectation
    }
    labels = model.labels
    for one, other in permutations(model.matrix.names, 2):
        speedup = model.matrix.speedup(one, other)
        found[effect_by_labels(labels[one], labels[other])][one, other] = speedup
    return found


@dataclass(frozen=True, slots=True)
class Assessment:
    """The numbers of section 3.3 for a matrix. Its means are of speedups."""

    slow_mean: float | None  #: mean where users expect a slowdown; None: no such pair
    symbiotic_mean: float | None  #: mean where users expect symbiosis; None: no such pair
    symbiotic: int  #: the number of pairs that users expect to be symbiotic
    symbiotic_right: int  #: those of them with a speedup of 1 or more
    random: float | None  #: mean over all pairs without a warning; None: no such pair
    best: Pairs  #: the user-guided schedule with the greatest throughput
    best_throughput: float  #: the mean speedup of its applications
    worst: Pairs  #: the user-guided schedule with the least throughput
    worst_throughput: float  #: the mean speedup of its applications
    guided_mean: float  #: mean throughput of the user-guided schedules
    blind_mean: float  #: mean throughput of all schedules


def assess(model: Model) -> Assessment:
    """Computes the assessment. Raises CoschedError if labels warn of every schedule."""
    names = model.matrix.names
    guided = list(user_guided(names, model.labels))
    if not guided:
        raise CoschedError("the labels warn of every schedule in pairs")
    matrix = model.matrix
    found = outcomes(model)
    symbiotic = found[Expectation.SYMBIOTIC].values()
    best = max(guided, key=lambda schedule: throughput(matrix, schedule))
    worst = min(guided, key=lambda schedule: throughput(matrix, schedule))
    return Assessment(
        slow_mean=_mean(found[Expectation.SLOW].values()),
        symbiotic_mean=_mean(symbiotic),
        symbiotic=len(symbiotic),
        symbiotic_right=sum(speedup >= 1.0 for speedup in symbiotic),
        random=_mean([*symbiotic, *found[Expectation.UNKNOWN].values()]),
        best=best,
        best_throughput=throughput(matrix, best),
        worst=worst,
        worst_throughput=throughput(matrix, worst),
        guided_mean=fmean(throughput(matrix, schedule) for schedule in guided),
        blind_mean=fmean(throughput(matrix, schedule) for schedule in schedules(names)),
    )


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return fmean(numbers) if numbers else None
