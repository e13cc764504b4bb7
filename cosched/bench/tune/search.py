"""Chooses the settings that ``cosched tune`` tries next and the ones it recommends. Pure.

Settings form a grid: slices by GMETs, once for each variant (mode, align). Each trial costs
a whole run of the workload, so not every point gets one:

1. Scouts: every other point of the grid, its edges, and the default, one run each.
2. Neighbours: an untried point gets a run if a tried point next to it is within ``MARGIN``
   of the best. Points among clearly worse points are not tried.
3. Halving: the better half of all tried points gets a second run, the better half of that
   half a third run, and so on. In each of these rounds the kernel and the default run
   again, so that compared runs are made close together.

This is successive halving (Jamieson and Talwalkar, AISTATS 2016) after a search of the
neighbourhood, which works because response times are smooth in slice and GMET. A failed run
counts as an infinite response. Only observed runs decide, so a resumed search repeats the
same choices on its recorded runs.

Limits: the search finds the best point of the grid, not a setting between points. Chance
decides between means that are closer than the spread of the runs; the advice calls them
equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from cosched.core.node.settings import Span

#: A point further than this from the best is clearly worse.
MARGIN = 0.15
#: Means closer than this are equal.
EQUAL_WITHIN = 0.03


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """A point of the grid."""

    #: Mode and align, as the options name them; empty: the daemons' mode, aligned.
    variant: str
    slice: Span  #: the time slice; it may be auto
    gmet: Span  #: the GMET; it may be auto


#: The rival: the jobs under the kernel alone.
KERNEL = "kernel"
Contestant = Setting | str
Observed = Mapping[Contestant, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Grid:
    """All points to try."""

    variants: tuple[str, ...]  #: modes and aligns, as in Setting
    slices: tuple[Span, ...]  #: ascending
    gmets: tuple[Span, ...]  #: ascending
    default: Setting  #: tried even if it is not a point of the grid

    def points(self) -> list[Setting]:
        """Returns all points with a GMET below the slice; otherwise no message switches."""
        return [
            Setting(variant, turn, gmet)
            for variant in self.variants
            for turn in self.slices
            for gmet in self.gmets
            if gmet.auto or gmet.ns < turn.ns
        ]

    def scouts(self) -> list[Setting]:
        """Returns every other point and the edges, for the first round."""
        slices, gmets = _every_other(self.slices), _every_other(self.gmets)
        found = [p for p in self.points() if p.slice in slices and p.gmet in gmets]
        return list(dict.fromkeys([self.default, *found]))

    def neighbours(self, point: Setting) -> list[Setting]:
        """Returns the points next to ``point``, diagonals included."""
        slices = [each for each in self.slices if _next_to(self.slices, each, point.slice)]
        gmets = [each for each in self.gmets if _next_to(self.gmets, each, point.gmet)]
        return [
            other
            for other in self.points()
            if other != point
            and other.variant == point.variant
            and other.slice in slices
            and other.gmet in gmets
        ]


def next_round(grid: Grid, observed: Observed, repeats: int) -> list[Contestant]:
    """Returns the contestants that run next, once each; empty when the search is over."""
    fresh = [point for point in grid.scouts() if point not in observed]
    if fresh:
        return [KERNEL, *fresh] if KERNEL not in observed else list(fresh)
    fresh = _worth_a_run(grid, observed)
    if fresh:
        return list(fresh)
    for number in range(2, repeats + 1):
        left = contenders(observed, number)
        beside: list[Contestant] = [KERNEL, *dict.fromkeys([grid.default, *left])]
        able = [one for one in beside if not _failed(observed.get(one, ()))]
        due = [one for one in able if len(observed.get(one, ())) < number]
        if due:
            return due
    return []


def contenders(observed: Observed, number: int) -> list[Setting]:
    """Returns the settings that get their ``number``-th run, best first.

    They are the better half of those that got the run before. Only earlier runs count, so
    the choice does not change during the round.
    """
    left = [one for one in observed if isinstance(one, Setting)]
    left = [one for one in left if not _failed(observed[one])]
    for earlier in range(1, number):
        known = [one for one in left if len(observed[one]) >= earlier]
        ranked = sorted(known, key=lambda one: (median(observed[one][:earlier]), one))
        left = ranked[: math.ceil(len(ranked) / 2)]
    return left


def runs_left(grid: Grid, observed: Observed, repeats: int) -> list[Contestant]:
    """Returns the greatest possible rest: all runs if no point is clearly worse."""
    known = {one: list(values) for one, values in observed.items()}
    finite = [min(values) for values in known.values() if not _failed(values)]
    typical = min(finite, default=1.0)
    coming: list[Contestant] = []
    while batch := next_round(grid, known, repeats):
        for one in batch:
            known.setdefault(one, []).append(typical)
        coming += batch
    return coming


class Verdict(Enum):
    """The result of a search."""

    SETTING = "setting"
    DEFAULT = "default"
    KERNEL = "kernel"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommendation. The ratios compare mean responses."""

    verdict: Verdict  #: the kind of the recommendation
    #: The setting to use; with DEFAULT the default, with KERNEL the best one found. None:
    #: every setting failed.
    best: Setting | None = None
    #: The best setting / the kernel; None: the kernel has no result.
    to_kernel: float | None = None
    #: The best setting / the default; None: the default has none.
    to_default: float | None = None


def advise(grid: Grid, observed: Observed) -> Advice:
    """Returns the recommendation from all observed runs.

    The best setting has the least median among those that ran most often. It must beat the
    default, and cosched must beat the kernel, by more than ``EQUAL_WITHIN``.
    """
    able = [one for one in observed if isinstance(one, Setting)]
    able = [one for one in able if not _failed(observed[one])]
    if not able:
        return Advice(Verdict.NOTHING)
    most = max(len(observed[one]) for one in able)
    finalists = [one for one in able if len(observed[one]) == most]
    best = min(finalists, key=lambda one: (median(observed[one]), one))
    default = grid.default if grid.default in able else None
    verdict = Verdict.SETTING
    if default is not None and not _ahead(observed[best], observed[default]):
        best, verdict = default, Verdict.DEFAULT
    kernel = observed.get(KERNEL, ())
    if kernel and not _failed(kernel) and not _ahead(observed[best], kernel):
        verdict = Verdict.KERNEL
    return Advice(
        verdict,
        best,
        _ratio(observed[best], kernel),
        _ratio(observed[best], observed[default] if default else ()),
    )


def _ahead(values: Sequence[float], others: Sequence[float]) -> bool:
    return median(values) < median(others) * (1 - EQUAL_WITHIN)


def _ratio(values: Sequence[float], others: Sequence[float]) -> float | None:
    if not others or _failed(others):
        return None
    return median(values) / median(others)


def _worth_a_run(grid: Grid, observed: Observed) -> list[Setting]:
    """Returns the points without a run next to one that is not clearly worse than the
    best."""
    medians = {
        one: median(values)
        for one, values in observed.items()
        if isinstance(one, Setting) and not _failed(values)
    }
    bound = min(medians.values(), default=0.0) * (1 + MARGIN)
    points = grid.points()
    good = [one for one in points if one in medians and medians[one] <= bound]
    near = {other for one in good for other in grid.neighbours(one)}
    return [each for each in points if each in near and each not in observed]


def _failed(values: Iterable[float]) -> bool:
    return any(math.isinf(value) for value in values)


def _every_other(lengths: Sequence[Span]) -> set[Span]:
    return {*lengths[::2], *lengths[-1:]}


def _next_to(lengths: Sequence[Span], one: Span, other: Span) -> bool:
    """Whether two lengths are at most one step apart, counting both as points."""
    axis = sorted({*lengths, one, other})
    return abs(axis.index(one) - axis.index(other)) <= 1
