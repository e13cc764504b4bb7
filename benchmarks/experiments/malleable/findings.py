"""Looks up what was measured for the claims of Weissman et al. (2003). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from benchmarks.experiments.claims import Claim, counted
from benchmarks.experiments.malleable.points import Measured as Figures
from benchmarks.experiments.malleable.points import Point, system
from benchmarks.experiments.verdicts import Judge, Points, points


class Findings:
    """Looks up the figures of points, and judges claims about them."""

    def __init__(self, measured: Figures) -> None:
        self.measured = measured
        #: Whether each figure is a mean over several streams.
        self.repeated = all(figures["streams"] > 1 for figures in measured.values())

    def each(self, ratios: Iterable[float]) -> Points:
        """Returns a figure at several points."""
        return points(ratios, repeated=self.repeated)

    def ratios(
        self,
        source: str,
        what: str,
        paper: str,
        values: Sequence[float],
        by: Judge,
        why: str = "",
    ) -> Claim:
        """Returns a claim about a ratio at each of several points."""
        return Claim(source, what, paper, times(values), self.each(values), by, why=why)

    def count(
        self, source: str, what: str, paper: str, checks: Iterable[bool], why: str = ""
    ) -> Claim:
        """Returns a claim about an order in several cases. Single streams leave it open."""
        found = list(checks)
        outcomes = (holds if self.repeated else None for holds in found)
        claim = counted(source, what, paper, outcomes, why=why)
        return msgspec.structs.replace(claim, ours=f"{found.count(True)} of {len(found)}")

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
