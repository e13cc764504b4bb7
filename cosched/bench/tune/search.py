"""Which settings to try next, and which to recommend: the rule of ``cosched tune``. Pure.

Settings form a grid: slices by GMETs, once for each variant (mode, align). A look costs a
whole run of the workload, so not every point gets one:

1. Scouts: every other point of the grid, its edges, and the default, one run each.
2. Neighbours: a point that has not been tried gets a run if a tried one next to it is
   within ``margin`` of the best. What lies among clearly worse ones is left alone.
3. Halving: the better half of all that were tried gets a second run, the better half of
   those a third, and so on; beside each of these rounds the kernel and the default run
   again, so that what is compared has been measured alongside.

Successive halving as by Jamieson and Talwalkar (AISTATS 2016), with the neighbourhood in
front, since response times are smooth in both lengths. A run that failed counts as an
infinite response. Nothing but what has been observed decides, so a search that begins anew
on recorded runs takes the same way through them.

Limits: it finds the best of the grid, not between its points; means closer than the runs'
own spread are told apart by chance, and the advice calls them equal.
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
    """A point of the grid. variant: mode and align, in the words that set them."""

    variant: str
    slice: Span
    gmet: Span


#: The rival: jobs shared by the kernel alone.
KERNEL = "kernel"
Contestant = Setting | str
Observed = Mapping[Contestant, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Grid:
    """Everything that may be tried. ``default`` is tried even if it is no point of it."""

    variants: tuple[str, ...]
    slices: tuple[Span, ...]
    gmets: tuple[Span, ...]
    default: Setting

    def points(self) -> list[Setting]:
        """All with a GMET below the slice; with a longer one no message pulls a switch."""
        return [
            Setting(variant, turn, gmet)
            for variant in self.variants
            for turn in self.slices
            for gmet in self.gmets
            if gmet.auto or gmet.ns < turn.ns
        ]

    def scouts(self) -> list[Setting]:
        """Every other point and the edges, for the first look."""
        slices, gmets = _every_other(self.slices), _every_other(self.gmets)
        found = [p for p in self.points() if p.slice in slices and p.gmet in gmets]
        return list(dict.fromkeys([self.default, *found]))

    def neighbours(self, point: Setting) -> list[Setting]:
        """The points next to it, diagonals included."""
        return [
            other
            for other in self.points()
            if other != point
            and other.variant == point.variant
            and _next_to(self.slices, other.slice, point.slice)
            and _next_to(self.gmets, other.gmet, point.gmet)
        ]


def next_round(grid: Grid, observed: Observed, repeats: int) -> list[Contestant]:
    """Who runs next, once each; nobody when the search is over."""
    fresh = [point for point in grid.scouts() if point not in observed]
    if fresh:
        return [KERNEL, *fresh] if KERNEL not in observed else list(fresh)
    fresh = [p for p in grid.points() if p not in observed and _worth(grid, p, observed)]
    if fresh:
        return list(fresh)
    for number in range(2, repeats + 1):
        left = contenders(grid, observed, number)
        beside: list[Contestant] = [KERNEL, *dict.fromkeys([grid.default, *left])]
        able = [one for one in beside if not _failed(observed.get(one, ()))]
        due = [one for one in able if len(observed.get(one, ())) < number]
        if due:
            return due
    return []


def contenders(grid: Grid, observed: Observed, number: int) -> list[Setting]:
    """Who gets a run of this number: half as many as for the one before, best first.

    Judged by the runs before that one, so that the choice stands while they run.
    """
    left = [one for one in observed if isinstance(one, Setting)]
    left = [one for one in left if not _failed(observed[one])]
    for earlier in range(1, number):
        known = [one for one in left if len(observed[one]) >= earlier]
        ranked = sorted(known, key=lambda one: (median(observed[one][:earlier]), one))
        left = ranked[: math.ceil(len(ranked) / 2)]
    return left


def runs_left(grid: Grid, observed: Observed, repeats: int) -> list[Contestant]:
    """All runs still to come if nothing turns out clearly worse: the most there can be."""
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
    """What a search found."""

    SETTING = "setting"
    DEFAULT = "default"
    KERNEL = "kernel"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Advice:
    """What to set. The ratios are of mean responses; None where one side has none.

    best: the setting to take; with DEFAULT the default, with KERNEL the best there was.
    """

    verdict: Verdict
    best: Setting | None = None
    to_kernel: float | None = None
    to_default: float | None = None


def advise(grid: Grid, observed: Observed) -> Advice:
    """The recommendation, from all that was observed.

    The best is the one of least median among those that ran most often. The default is
    kept unless another is ahead of it by more than chance, the kernel unless cosched is.
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


def _worth(grid: Grid, point: Setting, observed: Observed) -> bool:
    """Whether something tried next to the point is not clearly worse than the best."""
    finite = [
        median(values)
        for one, values in observed.items()
        if isinstance(one, Setting) and not _failed(values)
    ]
    if not finite:
        return False
    bound = min(finite) * (1 + MARGIN)
    tried = [observed[other] for other in grid.neighbours(point) if other in observed]
    return any(not _failed(values) and median(values) <= bound for values in tried)


def _failed(values: Iterable[float]) -> bool:
    return any(math.isinf(value) for value in values)


def _every_other(lengths: Sequence[Span]) -> set[Span]:
    return {*lengths[::2], *lengths[-1:]}


def _next_to(lengths: Sequence[Span], one: Span, other: Span) -> bool:
    """At most one step apart. A length that is no point of the axis is between two."""
    axis = sorted({*lengths, one, other})
    return abs(axis.index(one) - axis.index(other)) <= 1
