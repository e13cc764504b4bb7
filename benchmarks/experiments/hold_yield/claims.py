"""The claims of section V of Tang et al. (2011) about Figs. 3 to 10, and ours. Pure.

A figure is the mean of several runs; it may be anywhere in its 95% interval. "More" is the
mean of differences between runs with the same workloads. Verdicts: ``verdicts``. A claim
about several bars is about each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from benchmarks.experiments.claims import TUNED, Claim, counted, explained, near
from benchmarks.experiments.hold_yield.cases import (
    BASE,
    COMBINATIONS,
    LOADS,
    NAMES,
    NO_RELEASE,
    SHARES,
)
from benchmarks.experiments.hold_yield.means import Bar, Means
from benchmarks.experiments.hold_yield.reasons import reason_of
from benchmarks.experiments.verdicts import Above, Below, Judge, Measured, Points

WAIT, SLOWDOWN, SYNC, LOST = "mean_wait_s", "mean_slowdown", "mean_sync_s", "lost_share"
#: The combinations in which a machine holds, and the same with yield there.
HOLDS = {"compute": ("HH", "HY"), "analysis": ("HH", "YH")}
YIELDS = {"compute": ("YH", "YY"), "analysis": ("HY", "YY")}
LOW, MEDIUM, HIGH = LOADS
FEW, MANY, THIRD = SHARES[:3], SHARES[3], SHARES[4]
MINUTE_S = 60.0


def scaled(measured: Measured, by: float) -> Measured:
    """Returns the figure in another unit."""
    return msgspec.structs.replace(
        measured,
        middle=measured.middle * by,
        low=measured.low * by,
        high=measured.high * by,
    )


def are_more(differences: Iterable[Measured]) -> list[bool | None]:
    """Returns for each mean difference whether it is above 0; None if its interval has 0,
    or if there is a single run."""
    return [_is_more(one) if one.repeated else None for one in differences]


def _is_more(difference: Measured) -> bool | None:
    if difference.low > 0:
        return True
    return False if difference.high < 0 else None


def are_less(differences: Iterable[Measured]) -> list[bool | None]:
    """Returns for each mean difference whether it is below 0."""
    return are_more(
        Measured(-one.middle, -one.high, -one.low, one.repeated) for one in differences
    )


def _range(found: Iterable[Measured], form: str = "{:.0f}") -> str:
    middles = sorted(one.middle for one in found)
    least, most = form.format(middles[0]), form.format(middles[-1])
    return least if least == most else f"{least} to {most}"


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


def _bars(
    figure: str,
    text: str,
    paper: str,
    bars: Iterable[Measured],
    by: Judge,
    form: str = "{:.0f}",
) -> Claim:
    """Returns a claim about each of some bars. paper: its value with the unit."""
    found = tuple(bars)
    unit = paper.partition(" ")[2] if paper[0].isdigit() else paper.rpartition(" ")[2]
    unit = next((one for one in ("min", "%") if unit.endswith(one)), "")
    ours = f"{_range(found, form)} {unit}".strip()
    return Claim(figure, text, paper, ours, Points(found), by)


def _under(
    figure: str, text: str, most: float, bars: Iterable[Measured], unit: str, form: str
) -> Claim:
    """Returns a claim that each bar is below a bound."""
    return _bars(figure, text, f"under {most:g} {unit}".strip(), bars, Below(most), form)


def _together(means: Means) -> list[Claim]:
    groups, together = means.groups()
    outcomes = [groups == together] if groups else []
    stuck = means.stuck(NO_RELEASE)
    claim = counted("V.B", "all pairs start together", "all", outcomes)
    return [
        msgspec.structs.replace(claim, ours=f"{together:,} of {groups:,}"),
        counted(
            "V.B",
            "without the release, hold-hold deadlocks within the month",
            "highly likely",
            (jobs > 0 if len(stuck) > 1 else None for jobs in stuck),
        ),
    ]


def _base(sweep: _Sweep) -> list[Claim]:
    wait = sweep.compute.bars(WAIT, [LOW], [BASE])
    slow = sweep.compute.bars(SLOWDOWN, [LOW], [BASE])
    load = _bars("3a", "wait without pairs", "61 min", wait, near(61))
    return [
        msgspec.structs.replace(
            load, apart=TUNED, why="the load was chosen so that jobs wait as long"
        ),
        _bars("4a", "slowdown without pairs", "6.1", slow, near(6.1), "{:.1f}"),
    ]


def _by_load(sweep: _Sweep) -> list[Claim]:
    waits = [sweep.compute.extra(WAIT, [x]) for x in LOADS]
    slows = [sweep.compute.extra(SLOWDOWN, [x]) for x in LOADS]
    yielding = sweep.compute.extra(WAIT, [HIGH], YIELDS["compute"])
    text, one = "more wait with pairs, at load", "{:.1f}"
    claims = [
        _under("3a", f"{text} {LOW:g}", 4, waits[0], "min", one),
        _under("3a", f"{text} {MEDIUM:g}", 10, waits[1], "min", one),
        _bars("3a", f"{text} {HIGH:g}, the greatest", "42 min", [_highest(waits[2])],
              near(42, no_effect=0)),
        _under("3a", f"{text} {HIGH:g}, with yield here", 25, yielding, "min", "{:.0f}"),
        _under("3b", "more wait with pairs", 8, sweep.analysis.extra(WAIT, LOADS), "min",
               one),
    ]  # fmt: skip
    for x, bars, most in zip(LOADS, slows, (0.6, 1.5, 6.3), strict=True):
        what = f"more slowdown with pairs, at load {x:g}"
        claims.append(_under("4a", what, most, bars, "", "{:.2f}"))
    for figure, column, what in (("3", WAIT, "wait"), ("4", SLOWDOWN, "slowdown")):
        for part, view in sweep.parts:
            claims.append(
                counted(
                    figure + part,
                    f"at loads {MEDIUM:g} and {HIGH:g} hold here means more {what} of all "
                    "jobs than yield here",
                    "always",
                    are_more(view.by_hold(column, (MEDIUM, HIGH))),
                )
            )
    return claims


def _sync_by_load(sweep: _Sweep) -> list[Claim]:
    here = HOLDS["compute"]
    holds = [sweep.compute.bars(SYNC, [x], here) for x in LOADS]
    text = "sync time with hold here, at load"
    claims = [
        _under("5a", f"{text} {LOW:g}", 10, holds[0], "min", "{:.0f}"),
        _bars("5a", f"{text} {MEDIUM:g}, nearly", "50 min", holds[1], near(50)),
        _bars("5a", f"{text} {HIGH:g}", "above 150 min", holds[2], Above(150)),
        counted(
            "5a",
            "it grows with the load",
            "always",
            are_more(sweep.compute.steps(SYNC, LOADS, here)),
        ),
    ]
    for part, view in sweep.parts:
        but_one = part == "b"
        claims.append(
            counted(
                f"5{part}",
                "yield here means more sync time than hold here",
                "all but one" if but_one else "always",
                are_less(view.by_hold(SYNC, LOADS)),
                but=int(but_one),
            )
        )
    analysis = {
        how: sweep.analysis.bars(SYNC, LOADS, schemes["analysis"])
        for how, schemes in (("hold", HOLDS), ("yield", YIELDS))
    }
    return [
        *claims,
        _bars("5b", "sync time with hold here", "35 to 111 min", analysis["hold"],
              near(35, 111)),
        _bars("5b", "sync time with yield here", "52 to 137 min", analysis["yield"],
              near(52, 137)),
    ]  # fmt: skip


def _loss_by_load(sweep: _Sweep) -> list[Claim]:
    here, there = HOLDS["compute"], HOLDS["analysis"]
    low, high = (sweep.compute.bars(LOST, [x], here) for x in (LOW, HIGH))
    analysis = sweep.analysis.bars(LOST, LOADS, there)
    two = "{:.2f}"
    return [
        _bars("6a", f"loss at load {LOW:g}", "0.46 %", low, near(0.46), two),
        _bars("6a", f"loss at load {HIGH:g}, the greatest", "4.6 %", [_highest(high)],
              near(4.6), two),
        counted(
            "6a",
            "it grows with the load",
            "always",
            are_more(sweep.compute.steps(LOST, LOADS, here)),
        ),
        _bars("6b", "loss", "3.5 to 4.9 %", analysis, near(3.5, 4.9), two),
        counted(
            "6b",
            f"it is least at load {HIGH:g}",
            "always",
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
    one = "{:.1f}"
    return [
        _bars("7a", "more wait with pairs, up to 10% paired", "3 to 14 min", few,
              near(3, 14, 0)),
        _bars("7a", "the same with 20%", "26 to 38 min", many, near(26, 38, 0)),
        _bars("7a", "wait with 33% under hold-hold", "187 min", held, near(187, None, 61)),
        _bars("7a", "wait with 33%, yield here", "100 min", yielded, near(100, None, 61)),
        counted(
            "7a",
            "more pairs, more wait, from 10% to 20%",
            "always",
            are_more(sweep.compute.steps(WAIT, (FEW[-1], MANY))),
        ),
        counted(
            "7a",
            "from 20% to 33% with hold here",
            "always",
            are_more(sweep.compute.steps(WAIT, (MANY, THIRD), HOLDS["compute"])),
        ),
        counted(
            "7a",
            "with 33%, hold here means more wait than yield here",
            "always",
            are_more(sweep.compute.by_hold(WAIT, [THIRD])),
        ),
        counted(
            "7b", "from 20% to 33% more wait with hold here", "always",
            are_more(from_20_to_33),
        ),
        counted(
            "7b",
            "with 33%, hold here means more wait than yield here",
            "always",
            are_more(sweep.analysis.by_hold(WAIT, [THIRD])),
        ),
        _bars("8a", "slowdown, up to 10% paired", "6.1 to 7.5", slow_few,
              near(6.1, 7.5), one),
        _bars("8a", "slowdown with 20% and 33%, but for hold-hold", "7.9 to 12.9",
              slow_many, near(7.9, 12.9), one),
        counted(
            "8b",
            "from 10% to 33% more slowdown",
            "always",
            are_more(sweep.analysis.steps(SLOWDOWN, (FEW[-1], THIRD))),
        ),
    ]  # fmt: skip


def _sync_by_share(sweep: _Sweep) -> list[Claim]:
    claims = []
    ranges = {"a": (75, 124), "b": (60, 122)}
    for part, view in sweep.parts:
        bars = view.bars(SYNC, SHARES, HOLDS[view.machine])
        low, high = ranges[part]
        claims += [
            _bars(f"9{part}", "sync time with hold here", f"{low} to {high} min", bars,
                  near(low, high)),
            counted(
                f"9{part}",
                "it is less than with yield here",
                "always",
                are_less(view.by_hold(SYNC, SHARES)),
            ),
        ]  # fmt: skip
    return claims


def _loss_by_share(sweep: _Sweep) -> list[Claim]:
    claims = []
    losses = {"a": (0.7, 9.3), "b": (1, 21)}
    for part, view in sweep.parts:
        least = view.bars(LOST, SHARES[:1], HOLDS[view.machine])
        most = view.bars(LOST, [THIRD], HOLDS[view.machine])
        low, high = losses[part]
        lowest = min(least, key=lambda bar: bar.middle)
        name, two = f"10{part}", "{:.2f}"
        claims += [
            _bars(name, "the least loss", f"{low} %", [lowest], near(low), two),
            _bars(
                name, "the greatest loss", f"{high} %", [_highest(most)], near(high), two
            ),
            counted(
                name,
                "it grows with the share of pairs",
                "always",
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
    found = [
        *_together(means),
        *_base(load),
        *_by_load(load),
        *_sync_by_load(load),
        *_loss_by_load(load),
        *_wait_by_share(share),
        *_sync_by_share(share),
        *_loss_by_share(share),
    ]
    return explained(found, lambda claim: reason_of(claim.source, claim.what))
