"""Measures how fast each kernel runs on one half of a node beside each on the other half.

A speedup is the rate beside that neighbour / the rate beside a kernel of its own kind,
which is what a job on nodes of its own has beside it (section 3.3 of Weinberg and Snavely).
So beside itself it is 1. The median of several rounds counts; each round measures all
combinations once, so that what changes slowly on the machine touches all alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.kernels.build import KERNELS, Built
from benchmarks.kernels.occupant import Occupant, Place, occupied
from cosched.core.cluster.symbiosis.matrix import Model, SpeedupMatrix

Rates = dict[tuple[str, "str | None"], list[float]]

#: Hears how much is done, 0 to 1, and what is measured now.
Heard = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Halves:
    """primary: where a kernel is measured; background: where the other one runs."""

    primary: Place
    background: Place


def rate_of(kernel: str, built: Built, place: Place, seconds: float) -> float:
    """Work a second of a kernel on some CPUs."""
    with ExitStack() as stack:
        occupant = Occupant(kernel, built, place, seconds, stack)
        occupant.go()
        return occupant.rate()


def measure(
    built: Built,
    kernels: Sequence[str],
    halves: Halves,
    seconds: float,
    repeat: int,
    heard: Heard,
) -> Rates:
    """Rates by (kernel, its neighbour or None), one of each round."""
    cells = [(one, other) for one in kernels for other in (*kernels, None)]
    rates: Rates = {cell: [] for cell in cells}
    for count in range(repeat):
        for place, (one, other) in enumerate(cells):
            done = (count + place / len(cells)) / repeat
            heard(done, f"{one} beside {other or 'nobody'}")
            with occupied(other, built, halves.background):
                rates[one, other].append(rate_of(one, built, halves.primary, seconds))
    heard(1.0, "")
    return rates


def model_of(rates: Rates, kernels: Sequence[str]) -> Model:
    """The speedups that the rates say, with the kernels' labels."""
    median = {cell: statistics.median(values) for cell, values in rates.items()}

    def speedup(one: str, other: str | None) -> float:
        return 1.0 if one == other else median[one, other] / median[one, one]

    return Model(
        SpeedupMatrix(
            tuple(kernels),
            tuple(tuple(speedup(one, other) for other in kernels) for one in kernels),
            tuple(speedup(one, None) for one in kernels),
        ),
        tuple(KERNELS[one] for one in kernels),
    )
