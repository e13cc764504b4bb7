"""Applications in pairs, each pair on the halves of the same nodes (section 3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean
from typing import TypeAlias

from cosched.core.errors import CoschedError
from cosched.core.symbiosis.matrix import Model, SpeedupMatrix
from cosched.core.symbiosis.resources import Expectation, Labels, expected

Pair: TypeAlias = "tuple[str, str]"
Pairs: TypeAlias = "tuple[Pair, ...]"


def schedules(names: Sequence[str]) -> Iterator[Pairs]:
    """Every way to run an even number of applications in pairs."""
    if not names:
        yield ()
        return
    first, *others = names
    for place, partner in enumerate(others):
        for rest in schedules([*others[:place], *others[place + 1 :]]):
            yield ((first, partner), *rest)


def user_guided(names: Sequence[str], labels: Labels) -> Iterator[Pairs]:
    """The schedules in which nobody is expected to slow down."""
    for schedule in schedules(names):
        if all(not warned(labels, pair) for pair in schedule):
            yield schedule


def warned(labels: Labels, pair: Pair) -> bool:
    """Users' labels warn of this pair; whichever is the primary."""
    return expected(labels[pair[0]], labels[pair[1]]) is Expectation.SLOW


def both_orders(schedule: Pairs) -> Iterator[Pair]:
    """Each application of a schedule as the primary."""
    for one, other in schedule:
        yield one, other
        yield other, one


def throughput(matrix: SpeedupMatrix, schedule: Pairs) -> float:
    """The mean speedup of all applications of a schedule."""
    return fmean(matrix.speedup(*pair) for pair in both_orders(schedule))


def outcomes(model: Model) -> dict[Expectation, dict[Pair, float]]:
    """The speedup of each (primary, background), by what was expected of it."""
    found: dict[Expectation, dict[Pair, float]] = {
        expectation: {} for expectation in Expectation
    }
    labels = model.labels
    for pair in permutations(model.matrix.names, 2):
        expectation = expected(labels[pair[0]], labels[pair[1]])
        found[expectation][pair] = model.matrix.speedup(*pair)
    return found


@dataclass(frozen=True, slots=True)
class Assessment:
    """The numbers of section 3.3, of any matrix; None where there is nothing to average.

    slow_mean, symbiotic_mean: speedups where users expect that. symbiotic_right: of
    ``symbiotic`` predictions, those that came with a speedup of 1 or more. random: the
    mean over all combinations that nobody warns of. best, worst: user-guided schedules.
    """

    slow_mean: float | None
    symbiotic_mean: float | None
    symbiotic: int
    symbiotic_right: int
    random: float | None
    best: Pairs
    best_throughput: float
    worst: Pairs
    worst_throughput: float
    guided_mean: float
    blind_mean: float


def assess(model: Model) -> Assessment:
    """Raises CoschedError where no schedule in pairs exists, or none without a warning."""
    names = model.matrix.names
    if len(names) % 2:
        raise CoschedError(
            f"{len(names)} applications cannot run in pairs; leave one out of the matrix"
        )
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
