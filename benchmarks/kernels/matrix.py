"""Measures how fast each kernel runs on one half of a node beside each on the other half.

A speedup is the rate beside that neighbour divided by the rate beside the same kernel,
because a job with whole nodes runs beside itself (section 3.3 of Weinberg and Snavely). So
beside itself it is 1. The median of several rounds counts. Each round measures all
combinations once, so that slow changes of the machine affect all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.kernels.build import PROGRAMS, Built
from benchmarks.kernels.kernel_processes import KernelSetup, Occupant, occupied
from cosched.sim.symbiotic.matrix import Model, SpeedupMatrix

Rates = dict[tuple[str, "str | None"], list[float]]

#: Receives the finished part, 0 to 1, and the name of the present measurement.
Heard = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Halves:
    """Divides a node between two kernels."""

    primary: KernelSetup  #: the place of the measured kernel
    background: KernelSetup  #: the place of the other kernel


def rate_of(kernel: str, built: Built, place: KernelSetup, seconds: float) -> float:
    """Returns a kernel's work a second on some CPUs."""
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
    """Returns the speedups by the rates, with the kernels' labels."""
    median = {cell: statistics.median(values) for cell, values in rates.items()}

    def speedup(one: str, other: str | None) -> float:
        return 1.0 if one == other else median[one, other] / median[one, one]

    return Model(
        SpeedupMatrix(
            tuple(kernels),
            tuple(tuple(speedup(one, other) for other in kernels) for one in kernels),
            tuple(speedup(one, None) for one in kernels),
        ),
        tuple(PROGRAMS[one] for one in kernels),
    )
