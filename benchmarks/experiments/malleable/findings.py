"""Looks up what was measured for the claims of Weissman et al. (2003). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.experiments.malleable.points import Measured as Points
from benchmarks.experiments.malleable.points import Point, system
from benchmarks.experiments.verdicts import Measured, judge_cases, over_cases


class Findings:
    """Looks up the figures of points, and judges claims about them."""

    def __init__(self, measured: Points) -> None:
        self.measured = measured
        self._repeated = all(figures["streams"] > 1 for figures in measured.values())

    def over(self, ratios: Iterable[float]) -> Measured:
        """Returns the extent of a figure over several points."""
        return over_cases(ratios, repeated=self._repeated)

    def count(self, checks: Iterable[bool]) -> tuple[str, str]:
        """Returns in how many cases a claim holds, and the verdict."""
        found = list(checks)
        text = f"{sum(found)} of {len(found)}"
        refuted = False if self._repeated else None
        return text, judge_cases([True if holds else refuted for holds in found])

    def at(
        self, column: str, policy: str, degree: int | None, percent: int,
        execution: str = "linear",
    ) -> float:  # fmt: skip
        """Returns a figure of a system-centric experiment."""
        return self.measured[system(policy, degree, percent, execution)][column]

    def ratio(self, column: str, one: Point, other: Point) -> float:
        """Returns one / other; waits below a second count as one."""
        below = max(1.0, self.measured[other][column])
        return max(1.0, self.measured[one][column]) / below


def times(ratios: Iterable[float]) -> str:
    """Returns the least and the greatest ratio as text."""
    values = list(ratios)
    low, high = (_number(value) for value in (min(values), max(values)))
    return f"{low} times" if low == high else f"{low} to {high} times"


def _number(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"
