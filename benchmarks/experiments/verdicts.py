"""Judges the claims of papers by our figures. Pure.

There are four verdicts:

within x%       all our runs are so near the paper's value
direction only  the effect is on the paper's side of no effect, but has another size
no              the effect is absent, or on the other side
undecided       our runs differ too much, or there is one run only

A claim without a value, such as an order, gets "direction only" at best.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

DIRECTION = "direction only"
NO = "**no**"
UNDECIDED = "undecided"
#: The bounds of "within x%", in percent.
BOUNDS = (1, 2, 5, 10, 15, 20, 25)
#: Figures that differ by less are equal.
EQUAL_WITHIN = 0.05
#: A claim about all cases is undecided if it fails in no more than this share of them.
FEW = 0.1


@dataclass(frozen=True, slots=True)
class Measured:
    """A positive figure over its runs or cases."""

    middle: float  #: the median, mean or calculated value
    low: float  #: the least value, or the lower end of the mean's interval
    high: float  #: the greatest value, or the upper end of the mean's interval
    #: Whether several runs are behind each case; a calculated figure counts as such.
    repeated: bool = True

    def over(self, other: Measured) -> Measured:
        """Returns the ratio; its ends are the extremes that any two runs can give."""
        return Measured(
            self.middle / other.middle,
            self.low / other.high,
            self.high / other.low,
            self.repeated and other.repeated,
        )

    def less_than(self, other: Measured) -> bool | None:
        """Returns whether all runs are below all of the other's; None if the runs overlap,
        or if single runs contradict."""
        if self.high < other.low:
            return True
        if self.low > other.high and self.repeated and other.repeated:
            return False
        return None


def exact(value: float) -> Measured:
    """Returns a figure that has no spread because it was calculated."""
    return Measured(value, value, value)


def over_cases(values: Iterable[float], *, repeated: bool = True) -> Measured:
    """Returns the extent of a figure over several cases."""
    found = sorted(values)
    return Measured(median(found), found[0], found[-1], repeated)


def judge_value(
    ours: Measured, low: float, high: float | None = None, no_effect: float = 1.0
) -> str:
    """Judges a value beside the paper's, or beside its range from ``low`` to ``high``.

    no_effect: the value that means that there is no effect. If the paper's value is that
    value, then there is no side, and ours is near it or the verdict is not "direction".
    """
    most = low if high is None else high
    verdict = judge_amount(ours, low, most)
    if verdict not in (UNDECIDED, NO):
        return verdict
    if low >= no_effect and most > no_effect:
        return judge_above(ours, no_effect)
    if most <= no_effect and low < no_effect:
        return judge_below(ours, no_effect)
    return verdict


def judge_amount(ours: Measured, low: float, high: float) -> str:
    """Judges a value that has no side, such as a rate, beside the paper's range: it is near
    the range, far from it, or undecided."""
    off = max(_off(end, low, high) for end in (ours.low, ours.high))
    near = next((bound for bound in BOUNDS if off <= bound / 100 + 1e-9), None)
    if near is not None:
        return f"within {near}%"
    far = 1 + BOUNDS[-1] / 100
    return _refuted(ours) if ours.low > high * far or ours.high < low / far else UNDECIDED


def _off(value: float, low: float, high: float) -> float:
    """Returns by which share a value is outside a range."""
    return max(0.0, value / high - 1, low / value - 1 if value > 0 else inf)


def judge_above(ours: Measured, no_effect: float = 1.0) -> str:
    """Judges the claim that a figure is above the value that means no effect."""
    if ours.high <= no_effect * (1 + EQUAL_WITHIN):
        return _refuted(ours)
    return DIRECTION if ours.low > no_effect else UNDECIDED


def judge_below(ours: Measured, no_effect: float = 1.0) -> str:
    """Judges the claim that a figure is below the value that means no effect."""
    if ours.low >= no_effect * (1 - EQUAL_WITHIN):
        return _refuted(ours)
    return DIRECTION if ours.high < no_effect else UNDECIDED


def judge_cases(outcomes: Sequence[bool | None]) -> str:
    """Judges a claim about several cases. None: a case that the runs leave open."""
    if all(outcomes):
        return DIRECTION
    refuted = sum(outcome is False for outcome in outcomes)
    return NO if refuted > FEW * len(outcomes) else UNDECIDED


def _refuted(ours: Measured) -> str:
    """A single run refutes nothing."""
    return NO if ours.repeated else UNDECIDED
