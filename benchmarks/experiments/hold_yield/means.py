"""Averages the repeats of the hold and yield experiment. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.experiments.hold_yield.cases import BASE, NAMES, NO_RELEASE, Ended
from benchmarks.experiments.verdicts import Measured

#: The share of the intervals that have the true mean.
SURE = 0.95
_RESAMPLES = 2000

Bar = tuple[float, str]  #: a value of a sweep, and a combination


def mean_of(values: Sequence[float]) -> Measured:
    """Returns the mean of several runs, with the ends of its 95% interval (bootstrap)."""
    found = np.asarray(values, dtype=float)
    if len(found) < 2:
        return Measured(found[0], found[0], found[0], repeated=False)
    picks = np.random.default_rng(0).integers(len(found), size=(_RESAMPLES, len(found)))
    rest = 50 * (1 - SURE)
    low, high = np.percentile(found[picks].mean(axis=1), [rest, 100 - rest])
    return Measured(float(found.mean()), float(low), float(high))


@dataclass(slots=True)
class Means:
    """The results of all runs, by sweep, value, combination and repeat."""

    ended: Iterable[Ended]  #: the results, in any order; read once
    _found: dict[tuple[str, float, str], dict[int, dict[str, Any]]] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        for one in self.ended:
            run = one.run
            cell = self._found.setdefault((run.sweep, run.x, run.schemes), {})
            cell[run.repeat] = one.result

    def _figures(
        self, sweep: str, x: float, schemes: str, machine: str, column: str
    ) -> dict[int, float]:
        cell = self._found[sweep, x, schemes]
        return {
            repeat: result["domains"][machine][column] for repeat, result in cell.items()
        }

    def mean(
        self, sweep: str, x: float, schemes: str, machine: str, column: str
    ) -> Measured:
        """Returns the height of a bar."""
        figures = self._figures(sweep, x, schemes, machine, column)
        return mean_of(list(figures.values()))

    def more(
        self,
        sweep: str,
        bar: Bar,
        other: Bar,
        machine: str,
        column: str,
    ) -> Measured:
        """Returns by how much a bar is higher than another.

        Each run is compared with the run of the same repeat, which has the same workloads
        or such as begin alike.
        """
        one = self._figures(sweep, *bar, machine, column)
        two = self._figures(sweep, *other, machine, column)
        return mean_of([one[repeat] - two[repeat] for repeat in one if repeat in two])

    def stuck(self, schemes: str) -> list[int]:
        """Returns for each run with these schemes the number of jobs that never started."""
        return [
            result["stuck"]
            for (_, _, own), cell in self._found.items()
            if own == schemes
            for result in cell.values()
        ]

    def groups(self) -> tuple[int, int]:
        """Returns how many pairs there were in all runs of the sweeps, and how many started
        together."""
        results = [
            result
            for (_, _, schemes), cell in self._found.items()
            if schemes not in (BASE, NO_RELEASE)
            for result in cell.values()
        ]
        return sum(one["groups"] for one in results), sum(
            one["together"] for one in results
        )

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each sweep, value, combination and machine."""
        rows = []
        for (sweep, x, schemes), cell in sorted(self._found.items()):
            if schemes == NO_RELEASE:
                continue
            results = list(cell.values())
            for machine in NAMES:
                figures = [result["domains"][machine] for result in results]
                rows.append(
                    {
                        "sweep": sweep,
                        "x": x,
                        "schemes": schemes,
                        "machine": machine,
                        "repeats": len(results),
                        "groups": sum(result["groups"] for result in results),
                        "together": sum(result["together"] for result in results),
                        "stuck": sum(result["stuck"] for result in results),
                        **{
                            name: statistics.fmean(figure[name] for figure in figures)
                            for name in figures[0]
                        },
                    }
                )
        return rows
