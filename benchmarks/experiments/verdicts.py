"""Judges the claims of papers by our figures. Pure.

The verdicts:

within x%       all our runs show the effect, and are so near the paper's value or range
holds           the paper gives a bound or an order, and all our runs or cases keep it
direction only  the effect is on the paper's side of no effect, but has another size; an
                order that nine tenths of the cases keep, and not all
no              the value is another one and no effect is certain; the bound or order fails
undecided       our runs differ too much, or there is one run only, which decides nothing

A judge is data, so that it is stored beside the figure, and each verdict can be made from
the file again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from statistics import median
from typing import TypeAlias

import msgspec

HOLDS = "holds"
DIRECTION = "direction only"
NO = "**no**"
UNDECIDED = "undecided"
#: The bounds of "within x%", in percent.
BOUNDS = (1, 2, 5, 10, 15, 20, 25)
#: Figures that differ by less are equal.
EQUAL_WITHIN = 0.05
#: A claim about all cases is not refuted if it fails in no more than this share of them.
FEW = 0.1


class Measured(msgspec.Struct, frozen=True, tag="measured"):
    """A figure over its runs or cases."""

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
        or if one of the two is a single run."""
        if not (self.repeated and other.repeated):
            return None
        if self.high < other.low:
            return True
        return False if self.low > other.high else None


class Points(msgspec.Struct, frozen=True, tag="points"):
    """A figure at several points; the claim is about each of them."""

    each: tuple[Measured, ...]  #: the figure at each point


class Cases(msgspec.Struct, frozen=True, tag="cases"):
    """Numbers of cases in which an order was looked for."""

    held: int  #: the order holds
    failed: int  #: the opposite holds
    close: int = 0  #: the runs leave it open

    @property
    def text(self) -> str:
        """The counts in words."""
        counted = f"{self.held} of {self.held + self.failed + self.close}"
        return f"{counted}; {self.close} too close" if self.close else counted


Finding: TypeAlias = Measured | Points | Cases


def exact(value: float) -> Measured:
    """Returns a figure that has no spread because it was calculated."""
    return Measured(value, value, value)


def over_cases(values: Iterable[float], *, repeated: bool = True) -> Measured:
    """Returns the extent of a figure over several cases."""
    found = sorted(map(float, values))
    return Measured(median(found), found[0], found[-1], repeated)


def points(values: Iterable[float], *, repeated: bool = True) -> Points:
    """Returns a calculated figure at several points."""
    return Points(tuple(Measured(one, one, one, repeated) for one in map(float, values)))


def cases(outcomes: Iterable[bool | None]) -> Cases:
    """Counts outcomes. None: a case that the runs leave open, or that has one run."""
    found = list(outcomes)
    return Cases(found.count(True), found.count(False), found.count(None))


# -- judges -----------------------------------------------------------------------------


class Near(msgspec.Struct, frozen=True, tag="near"):
    """Judges a value beside the paper's, or beside its range."""

    low: float  #: the paper's value, or the lower end of its range
    high: float | None = None  #: the upper end; None: there is a single value
    #: The value that means that there is no effect. None: the value has no side, such as a
    #: rate; then the verdict is within, no or undecided.
    no_effect: float | None = None

    def verdict(self, ours: Measured) -> str:
        """Returns the verdict on one figure: near the paper's only with its effect."""
        most = self.low if self.high is None else self.high
        side = HOLDS if self.no_effect is None else self._side(ours, self.no_effect, most)
        near = _near(ours, self.low, most)
        if side == NO:
            return NO
        if side == HOLDS and near is not None:
            return near
        if side == HOLDS and self.no_effect is not None:
            return DIRECTION
        far = 1 + BOUNDS[-1] / 100
        outside = ours.low > most * far or ours.high < self.low / far
        return NO if outside else UNDECIDED

    def _side(self, ours: Measured, no_effect: float, most: float) -> str:
        """Returns the verdict on the effect alone, on the paper's side. Beside 0, figures
        are equal by their difference as a share of the paper's effect."""
        nearest = self.low if abs(self.low) < abs(most) else most
        slack = EQUAL_WITHIN * (abs(no_effect) or abs(nearest))
        if most > no_effect:
            if ours.high <= no_effect + slack:
                return NO
            return HOLDS if ours.low > no_effect else UNDECIDED
        if ours.low >= no_effect - slack:
            return NO
        return HOLDS if ours.high < no_effect else UNDECIDED


class Below(msgspec.Struct, frozen=True, tag="below"):
    """Judges a bound: the figure is below it."""

    bound: float  #: the paper's bound, or the value that means no effect
    #: The share of the bound by which a figure may be below and still count as no effect.
    slack: float = 0.0

    def verdict(self, ours: Measured) -> str:
        """Returns the verdict on one figure."""
        if ours.low >= self.bound - abs(self.bound) * self.slack:
            return NO
        return HOLDS if ours.high < self.bound else UNDECIDED


class Above(msgspec.Struct, frozen=True, tag="above"):
    """Judges a bound: the figure is above it."""

    bound: float  #: the paper's bound, or the value that means no effect
    #: The share of the bound by which a figure may be above and still count as no effect.
    slack: float = 0.0

    def verdict(self, ours: Measured) -> str:
        """Returns the verdict on one figure."""
        if ours.high <= self.bound + abs(self.bound) * self.slack:
            return NO
        return HOLDS if ours.low > self.bound else UNDECIDED


class Order(msgspec.Struct, frozen=True, tag="order"):
    """Judges an order that is claimed in each of several cases."""

    but: int = 0  #: the number of cases that the paper excepts

    def verdict(self, ours: Cases) -> str:
        """Returns the verdict on the counted cases."""
        failed = max(0, ours.failed - self.but)
        total = ours.held + ours.failed + ours.close
        if total and not failed and not ours.close:
            return HOLDS
        if failed > FEW * total:
            return NO
        mostly = total > 0 and ours.held >= (1 - FEW) * total
        return DIRECTION if mostly else UNDECIDED


Judge: TypeAlias = Near | Below | Above | Order


def judge(by: Judge, ours: Finding) -> str:
    """Returns the verdict on a finding; ValueError if the judge is for another kind."""
    if isinstance(by, Order):
        if isinstance(ours, Cases):
            return by.verdict(ours)
    elif isinstance(ours, Measured):
        return _of_runs(by, ours)
    elif isinstance(ours, Points):
        return _worst([_of_runs(by, one) for one in ours.each])
    raise ValueError(f"{by} cannot judge {ours}")


def _of_runs(by: Near | Below | Above, ours: Measured) -> str:
    """Returns the verdict on one figure. A single run decides nothing: another one may have
    another value."""
    return by.verdict(ours) if ours.repeated else UNDECIDED


def _worst(verdicts: Sequence[str]) -> str:
    """Returns the verdict on all points: the weakest one, but a few refuted ones leave it
    open."""
    refuted = verdicts.count(NO)
    if refuted or UNDECIDED in verdicts:
        return NO if refuted > FEW * len(verdicts) else UNDECIDED
    if DIRECTION in verdicts:
        return DIRECTION
    return max(verdicts, key=_width)


def _width(verdict: str) -> int:
    return int(verdict.split()[1].rstrip("%")) if verdict.startswith("within") else 0


def _near(ours: Measured, low: float, high: float) -> str | None:
    off = max(_off(end, low, high) for end in (ours.low, ours.high))
    return next((f"within {x}%" for x in BOUNDS if off <= x / 100 + 1e-9), None)


def _off(value: float, low: float, high: float) -> float:
    """Returns by which share a value is outside a range."""
    return max(0.0, value / high - 1, low / value - 1 if value > 0 else inf)
