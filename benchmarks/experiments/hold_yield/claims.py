"""The claims of section V of Tang et al. (2011) about Figs. 3 to 10, and ours. Pure.

A figure is the mean of several runs; it may be anywhere in its 95% interval. "More" is the
mean of differences between runs with the same workloads. Verdicts: ``verdicts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

from benchmarks.experiments.claims import Claim
from benchmarks.experiments.hold_yield.cases import BASE, COMBINATIONS, LOADS, NAMES, SHARES
from benchmarks.experiments.hold_yield.means import Bar, Means
from benchmarks.experiments.verdicts import (
    Measured,
    judge_cases,
    judge_value,
)

WAIT, SLOWDOWN, SYNC, LOST = "mean_wait_s", "mean_slowdown", "mean_sync_s", "lost_share"
#: The combinations in which a machine holds, and the same with yield there.
HOLDS = {"compute": ("HH", "HY"), "analysis": ("HH", "YH")}
YIELDS = {"compute": ("YH", "YY"), "analysis": ("HY", "YY")}
LOW, MEDIUM, HIGH = LOADS
FEW, MANY, THIRD = SHARES[:3], SHARES[3], SHARES[4]
MINUTE_S = 60.0


def scaled(measured: Measured, by: float) -> Measured:
    """Returns the figure in another unit."""
    return replace(
        measured,
        middle=measured.middle * by,
        low=measured.low * by,
        high=measured.high * by,
    )


def are_more(differences: Iterable[Measured]) -> list[bool | None]:
    """Returns for each mean difference whether it is above 0; None if its interval has 0,
    or if there is a single run to the contrary."""
    return [
        True if one.low > 0 else False if one.high < 0 and one.repeated else None
        for one in differences
    ]


def are_less(differences: Iterable[Measured]) -> list[bool | None]:
    """Returns for each mean difference whether it is below 0."""
    return are_more(
        Measured(-one.middle, -one.high, -one.low, one.repeated) for one in differences
    )


def _range(found: Iterable[Measured], form: str = "{:.0f}") -> str:
    middles = sorted(one.middle for one in found)
    least, most = form.format(middles[0]), form.format(middles[-1])
    return least if least == most else f"{least} to {most}"


def _count(outcomes: Iterable[bool | None]) -> str:
    found = list(outcomes)
    text = f"{found.count(True)} of {len(found)}"
    return f"{text}; {found.count(None)} too close" if None in found else text


def _extent(found: Iterable[Measured]) -> Measured:
    """Returns the extent of several bars, with their intervals."""
    bars = list(found)
    middles = sorted(bar.middle for bar in bars)
    return Measured(
        middles[len(middles) // 2],
        min(bar.low for bar in bars),
        max(bar.high for bar in bars),
        all(bar.repeated for bar in bars),
    )


def _highest(found: Iterable[Measured]) -> Measured:
    return max(found, key=lambda bar: bar.middle)


@dataclass(frozen=True, slots=True)
class _View:
    """The bars of a machine in a sweep, in minutes, times or percent.

    Without schemes, all combinations are meant.
    """

    means: Means
    sweep: str
    machine: str

    def bars(
        self, column: str, xs: Iterable[float], schemes: Sequence[str] = COMBINATIONS
    ) -> list[Measured]:
        """Returns the bars of each value and combination."""
        at = (self.machine, column)
        found = [self.means.mean(self.sweep, x, how, *at) for x in xs for how in schemes]
        return [scaled(bar, _unit(column)) for bar in found]

    def extra(
        self, column: str, xs: Iterable[float], schemes: Sequence[str] = COMBINATIONS
    ) -> list[Measured]:
        """Returns by how much bars are higher than without pairs."""
        pairs = [((x, how), (x, BASE)) for x in xs for how in schemes]
        return [scaled(more, _unit(column)) for more in self._more(column, pairs)]

    def by_hold(self, column: str, xs: Iterable[float]) -> list[Measured]:
        """Returns for each value and scheme of the other machine by how much the bar with
        hold here is higher than that with yield here."""
        ways = list(zip(HOLDS[self.machine], YIELDS[self.machine], strict=True))
        pairs = [((x, held), (x, yielded)) for x in xs for held, yielded in ways]
        return self._more(column, pairs)

    def steps(
        self, column: str, xs: Iterable[float], schemes: Sequence[str] = COMBINATIONS
    ) -> list[Measured]:
        """Returns for each combination by how much the bars rise from value to value."""
        steps = list(pairwise(xs))
        return self._more(
            column, [((more, how), (less, how)) for how in schemes for less, more in steps]
        )

    def _more(self, column: str, pairs: Iterable[tuple[Bar, Bar]]) -> list[Measured]:
        at = (self.machine, column)
        return [self.means.more(self.sweep, one, other, *at) for one, other in pairs]


@dataclass(frozen=True, slots=True)
class _Sweep:
    """The views of both machines in a sweep."""

    compute: _View
    analysis: _View

    @property
    def parts(self) -> tuple[tuple[str, _View], ...]:
        """The views with the letters of their parts of a figure."""
        return ("a", self.compute), ("b", self.analysis)


def _unit(column: str) -> float:
    if column in (WAIT, SYNC):
        return 1 / MINUTE_S
    return 100.0 if column == LOST else 1.0


def _value(
    figure: str,
    text: str,
    paper: tuple[float, float],
    bars: Iterable[Measured],
    unit: str,
    no_effect: float = 0.0,
    form: str = "{:.0f}",
) -> Claim:
    """A claim that bars are in a range."""
    found = list(bars)
    low, high = paper
    if low == high:
        shown = f"{low:g} {unit}"
    else:
        shown = f"under {high:g} {unit}" if not low else f"{low:g} to {high:g} {unit}"
    verdict = judge_value(_extent(found), low, high, no_effect)
    return Claim(
        figure, text, shown.strip(), f"{_range(found, form)} {unit}".strip(), verdict
    )


def _cases(
    figure: str, text: str, outcomes: Iterable[bool | None], but_one: bool = False
) -> Claim:
    """A claim about all cases, or about all but one."""
    found = list(outcomes)
    judged = list(found)
    if but_one and False in judged:
        judged.remove(False)
    paper = "all but one" if but_one else "always"
    return Claim(figure, text, paper, _count(found), judge_cases(judged))


def _together(means: Means) -> list[Claim]:
    groups, together = means.groups()
    verdict = "within 1%" if groups == together else "**no**"
    ours = f"{together:,} of {groups:,}"
    return [Claim("V.B", "all pairs start together", "all", ours, verdict)]


def _base(sweep: _Sweep) -> list[Claim]:
    wait = sweep.compute.bars(WAIT, [LOW], [BASE])
    slow = sweep.compute.bars(SLOWDOWN, [LOW], [BASE])
    return [
        _value("3a", "wait without pairs (tuned)", (61, 61), wait, "min"),
        _value("4a", "slowdown without pairs", (6.1, 6.1), slow, "", 1.0, "{:.1f}"),
    ]


def _by_load(sweep: _Sweep) -> list[Claim]:
    waits = [sweep.compute.extra(WAIT, [x]) for x in LOADS]
    slows = [sweep.compute.extra(SLOWDOWN, [x]) for x in LOADS]
    yielding = sweep.compute.extra(WAIT, [HIGH], YIELDS["compute"])
    text = "more wait with pairs, at load"
    claims = [
        _value("3a", f"{text} {LOW:g}", (0, 4), waits[0], "min", form="{:.1f}"),
        _value("3a", f"{text} {MEDIUM:g}", (0, 10), waits[1], "min", form="{:.1f}"),
        _value("3a", f"{text} {HIGH:g}, at most", (42, 42), [_highest(waits[2])], "min"),
        _value("3a", f"{text} {HIGH:g}, with yield here", (0, 25), yielding, "min"),
    ]
    others = sweep.analysis.extra(WAIT, LOADS)
    claims.append(
        _value("3b", "more wait with pairs", (0, 8), others, "min", form="{:.1f}")
    )
    for x, bars, most in zip(LOADS, slows, (0.6, 1.5, 6.3), strict=True):
        what = f"more slowdown with pairs, at load {x:g}"
        claims.append(_value("4a", what, (0, most), bars, "", form="{:.2f}"))
    for figure, column, what in (("3", WAIT, "wait"), ("4", SLOWDOWN, "slowdown")):
        for part, view in sweep.parts:
            claims.append(
                _cases(
                    figure + part,
                    f"at loads {MEDIUM:g} and {HIGH:g} hold here means more {what} of all "
                    "jobs than yield here",
                    are_more(view.by_hold(column, (MEDIUM, HIGH))),
                )
            )
    return claims


def _sync_by_load(sweep: _Sweep) -> list[Claim]:
    here = HOLDS["compute"]
    holds = [sweep.compute.bars(SYNC, [x], here) for x in LOADS]
    claims = [
        _value(
            "5a", f"sync time with hold here, at load {LOW:g}", (0, 10), holds[0], "min"
        ),
        _value("5a", f"the same at {MEDIUM:g}, nearly", (50, 50), holds[1], "min"),
        Claim(
            "5a",
            f"the same at {HIGH:g}",
            "above 150 min",
            f"{_range(holds[2])} min",
            judge_value(_extent(holds[2]), 150, inf, 0),
        ),
        _cases(
            "5a",
            "it grows with the load",
            are_more(sweep.compute.steps(SYNC, LOADS, here)),
        ),
    ]
    for part, view in sweep.parts:
        claims.append(
            _cases(
                f"5{part}",
                "yield here means more sync time than hold here",
                are_less(view.by_hold(SYNC, LOADS)),
                but_one=part == "b",
            )
        )
    analysis = {
        how: sweep.analysis.bars(SYNC, LOADS, schemes["analysis"])
        for how, schemes in (("hold", HOLDS), ("yield", YIELDS))
    }
    claims += [
        _value("5b", "sync time with hold here", (35, 111), analysis["hold"], "min"),
        _value("5b", "sync time with yield here", (52, 137), analysis["yield"], "min"),
    ]
    return claims


def _loss_by_load(sweep: _Sweep) -> list[Claim]:
    here, there = HOLDS["compute"], HOLDS["analysis"]
    low, high = (sweep.compute.bars(LOST, [x], here) for x in (LOW, HIGH))
    analysis = sweep.analysis.bars(LOST, LOADS, there)
    form = "{:.2f}"
    return [
        _value("6a", f"loss at load {LOW:g}", (0.46, 0.46), low, "%", form=form),
        _value("6a", f"loss at load {HIGH:g}, at most", (4.6, 4.6), [_highest(high)], "%",
               form=form),
        _cases(
            "6a",
            "it grows with the load",
            are_more(sweep.compute.steps(LOST, LOADS, here)),
        ),
        _value("6b", "loss", (3.5, 4.9), analysis, "%", form=form),
        _cases(
            "6b",
            f"it is least at load {HIGH:g}",
            are_less(sweep.analysis.steps(LOST, (MEDIUM, HIGH), there)),
        ),
    ]  # fmt: skip


def _wait_by_share(sweep: _Sweep) -> list[Claim]:
    few = sweep.compute.extra(WAIT, FEW)
    many = sweep.compute.extra(WAIT, [MANY])
    held = sweep.compute.bars(WAIT, [THIRD], ["HH"])
    yielded = sweep.compute.bars(WAIT, [THIRD], YIELDS["compute"])
    slow_few = sweep.compute.bars(SLOWDOWN, FEW)
    slow_many = sweep.compute.bars(SLOWDOWN, [MANY, THIRD], COMBINATIONS[1:])
    from_20_to_33 = sweep.analysis.steps(WAIT, (MANY, THIRD), HOLDS["analysis"])
    return [
        _value("7a", "more wait with pairs, up to 10% paired", (3, 14), few, "min"),
        _value("7a", "the same with 20%", (26, 38), many, "min"),
        _value("7a", "wait with 33% under hold-hold", (187, 187), held, "min", 61),
        _value("7a", "wait with 33%, yield here", (100, 100), yielded, "min", 61),
        _cases(
            "7a",
            "more pairs, more wait, from 10% to 20%",
            are_more(sweep.compute.steps(WAIT, (FEW[-1], MANY))),
        ),
        _cases(
            "7a",
            "from 20% to 33% with hold here",
            are_more(sweep.compute.steps(WAIT, (MANY, THIRD), HOLDS["compute"])),
        ),
        _cases(
            "7a",
            "with 33%, hold here means more wait than yield here",
            are_more(sweep.compute.by_hold(WAIT, [THIRD])),
        ),
        _cases(
            "7b",
            "from 20% to 33% more wait with hold here",
            are_more(from_20_to_33),
        ),
        _cases(
            "7b",
            "with 33%, hold here means more wait than yield here",
            are_more(sweep.analysis.by_hold(WAIT, [THIRD])),
        ),
        _value("8a", "slowdown, up to 10% paired", (6.1, 7.5), slow_few, "", 1.0, "{:.1f}"),
        _value("8a", "slowdown with 20% and 33%, but for hold-hold", (7.9, 12.9), slow_many,
               "", 1.0, "{:.1f}"),
        _cases(
            "8b",
            "from 10% to 33% more slowdown",
            are_more(sweep.analysis.steps(SLOWDOWN, (FEW[-1], THIRD))),
        ),
    ]  # fmt: skip


def _sync_by_share(sweep: _Sweep) -> list[Claim]:
    claims = []
    ranges = {"a": (75, 124), "b": (60, 122)}
    for part, view in sweep.parts:
        bars = view.bars(SYNC, SHARES, HOLDS[view.machine])
        text = "sync time with hold here"
        claims += [
            _value(f"9{part}", text, ranges[part], bars, "min"),
            _cases(
                f"9{part}",
                "it is less than with yield here",
                are_less(view.by_hold(SYNC, SHARES)),
            ),
        ]
    return claims


def _loss_by_share(sweep: _Sweep) -> list[Claim]:
    claims = []
    losses = {"a": (0.7, 9.3), "b": (1, 21)}
    for part, view in sweep.parts:
        least = view.bars(LOST, SHARES[:1], HOLDS[view.machine])
        most = view.bars(LOST, [THIRD], HOLDS[view.machine])
        low, high = losses[part]
        lowest = min(least, key=lambda bar: bar.middle)
        name, form = f"10{part}", "{:.2f}"
        claims += [
            _value(name, "loss, at least", (low, low), [lowest], "%", form=form),
            _value(name, "loss, at most", (high, high), [_highest(most)], "%", form=form),
            _cases(
                name,
                "it grows with the share of pairs",
                are_more(view.steps(LOST, SHARES, HOLDS[view.machine])),
            ),
        ]
    return claims


def claims_of(means: Means) -> list[Claim]:
    """Returns all claims about both sweeps."""
    load, share = (
        _Sweep(*(_View(means, name, machine) for machine in NAMES))
        for name in ("load", "share")
    )
    return [
        *_together(means),
        *_base(load),
        *_by_load(load),
        *_sync_by_load(load),
        *_loss_by_load(load),
        *_wait_by_share(share),
        *_sync_by_share(share),
        *_loss_by_share(share),
    ]
