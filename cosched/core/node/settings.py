"""Holds the settings of a node that an operator may change, and parses their texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from msgspec import Struct

from cosched.core.config.kinds import AUTO, SWITCH, Kind, member_of, stripped, timed
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.node.periods import SETTLED_NS
from cosched.core.units import (
    LENGTH_MAX_NS,
    NS_PER_MS,
    NS_PER_S,
    format_duration,
    parse_duration,
)

SLICE_MIN_NS = NS_PER_MS

#: The slice of ``auto``: the shortest turn.
LEAST_NS = NS_PER_S
#: The longest turn of ``auto``, in slices.
LONGEST = 64
#: The slice of ``auto`` for a driver that gives all jobs the same slice.
FIXED_NS = 2 * NS_PER_S
#: The GMET of ``auto`` is this part of a turn, within the bounds. That is long enough for a
#: job to be scheduled on all its nodes, and short against the turn that it delays.
GMET_PART = 20
GMET_LEAST_NS = 20 * NS_PER_MS
GMET_MOST_NS = 500 * NS_PER_MS
#: However short the turn, GMET is at most this part of it.
GMET_LARGEST_PART = 4


class Span(Struct, frozen=True, order=True):
    """A slice or a GMET as it is set."""

    ns: int  #: its length, or the least length if ``auto``
    auto: bool = False  #: the length adapts to the jobs


class Order(str, Enum):
    """The order of jobs that compete."""

    REST = "rest"  # the job that probably ends soonest first
    AGE = "age"  # turns that follow the age of the jobs
    PAPER = "paper"  # the paper's rules alone


class Fairness(str, Enum):
    """Between which parties the CPU time is shared."""

    JOBS = "jobs"
    USERS = "users"


@dataclass(frozen=True, slots=True)
class LeastShare:
    """The part of its fair share that each job gets in each period; see ``guarantee``."""

    percent: int = 25  #: the part, of its fair share
    period_ns: int = 30 * NS_PER_S  #: the length of a period; see ``guarantee``

    @property
    def reserved_ns(self) -> int:
        """The part of a period that all jobs of a group are guaranteed together."""
        return self.period_ns * self.percent // 100


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one node."""

    #: How long a job stays scheduled before the next job's turn.
    slice_ns: int = 2 * NS_PER_S
    #: The guaranteed minimum execution time. No trapped message takes the CPU from a job
    #: that has run for less (section 2.1 of the paper).
    gmet_ns: int = 100 * NS_PER_MS
    align: bool = True  #: slices end at multiples of the slice by the wall clock
    #: Turns follow the age of the jobs, from ``slice_ns`` on; see ``slices.adaptive``.
    slice_auto: bool = False
    gmet_auto: bool = False  #: GMET follows the turn, from ``gmet_ns`` on
    slice_most_ns: int | None = None  #: the limit of an adaptive slice; None: no limit
    gmet_most_ns: int | None = None  #: the limit of an adaptive GMET; None: no limit
    #: The order of the jobs. ``rest`` and ``age`` count if the slice is ``auto``; otherwise
    #: jobs take turns. ``paper`` has a fixed slice that is not aligned.
    order: Order = Order.REST
    #: The least time that each job gets in any order; see ``guarantee``.
    least_share: LeastShare = LeastShare()
    #: Jobs or users get equal shares of the time; see ``guarantee``.
    fairness: Fairness = Fairness.JOBS

    def __post_init__(self) -> None:
        if self.slice_ns < SLICE_MIN_NS:
            raise CoschedError(
                f"slice: {format_duration(self.slice_ns)} is too short; "
                f"the least is {format_duration(SLICE_MIN_NS)}"
            )
        for name, ns in (("slice", self.slice_ns), ("gmet", self.gmet_ns)):
            if ns > LENGTH_MAX_NS:
                raise CoschedError(
                    f"{name}: {format_duration(ns)} is too long; "
                    f"the most is {format_duration(LENGTH_MAX_NS)}"
                )
        if self.gmet_ns < 0:
            raise CoschedError("gmet: must not be negative")

    @property
    def slice(self) -> Span:
        """The slice as it is set."""
        return Span(self.slice_ns, self.slice_auto)

    @property
    def gmet(self) -> Span:
        """GMET as it is set."""
        return Span(self.gmet_ns, self.gmet_auto)

    @property
    def fixed_slice_ns(self) -> int:
        """The slice of a driver that gives all jobs the same slice."""
        return FIXED_NS if self.slice_auto else self.slice_ns

    def gmet_within_ns(self, turn_ns: int) -> int:
        """Returns GMET within turns of ``turn_ns``."""
        if not self.gmet_auto:
            return self.gmet_ns
        return at_most(gmet_of_turn_ns(turn_ns), self.gmet_most_ns)

    def texts(self) -> dict[str, str]:
        """Returns the texts from which ``changed`` makes these settings."""
        return {name: kind.text(getattr(self, name)) for name, kind in KINDS.items()}

    @property
    def without_effect(self) -> dict[str, str]:
        """The settings that change nothing, each with the setting that is the reason."""
        if self.order is Order.PAPER:
            return dict.fromkeys(("least_share", "fairness"), "order")
        if not self.slice_auto:
            return dict.fromkeys(("order", "least_share", "fairness"), "slice")
        if self.order is Order.AGE:
            return dict.fromkeys(("least_share", "fairness"), "order")
        return {}

    def warnings(self) -> tuple[str, ...]:
        """Returns a line for each setting that is allowed but probably a mistake."""
        found = []
        if self.slice_ns < SETTLED_NS:
            found.append(
                f"slice {format_duration(self.slice_ns)} is below "
                f"{format_duration(SETTLED_NS)}: it ends before a switch has taken "
                "effect, or a message was trapped"
            )
        if not self.gmet_auto and self.gmet_ns >= self.slice_ns:
            which = "the least slice" if self.slice_auto else "slice"
            found.append(
                f"gmet {format_duration(self.gmet_ns)} is not below {which} "
                f"{format_duration(self.slice_ns)}: no message will pull a switch "
                "there, only the timer switches jobs"
            )
        return tuple(found)

    def changed(self, assignments: dict[str, str]) -> Settings:
        """Returns these settings with the given texts applied."""
        values: dict[str, Any] = {}
        for name, text in assignments.items():
            if name not in KINDS:
                raise CoschedError(
                    f"'{name}' is not a setting; the settings are {', '.join(KINDS)}"
                )
            values[name] = KINDS[name].named(text, name)
        return self.with_values(values)

    def with_values(self, values: Mapping[str, Any]) -> Settings:
        """Returns these settings with the given values, by the names in ``KINDS``."""
        given: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, Span):
                given[f"{name}_ns"], given[f"{name}_auto"] = value.ns, value.auto
            else:
                given[name] = value
        return replace(self, **given)


#: The default settings of a node.
USUAL = Settings(LEAST_NS, GMET_LEAST_NS, align=True, slice_auto=True, gmet_auto=True)


def gmet_of_turn_ns(turn_ns: int) -> int:
    """Returns the GMET of ``auto`` within turns of ``turn_ns``."""
    least_ns = min(GMET_LEAST_NS, turn_ns // GMET_LARGEST_PART)
    return min(max(turn_ns // GMET_PART, least_ns), GMET_MOST_NS)


def at_most(ns: int, most_ns: int | None) -> int:
    """Returns ``ns``, limited to ``most_ns`` if there is a limit."""
    return ns if most_ns is None else min(ns, most_ns)


def _parse_slice(text: str) -> Span:
    word, colon, least = text.partition(":")
    if word != AUTO:
        return _fixed(text)
    return Span(parse_duration(least) if colon else LEAST_NS, auto=True)


def _write_slice(span: Span) -> str:
    if not span.auto:
        return format_duration(span.ns)
    return AUTO if span.ns == LEAST_NS else f"{AUTO}:{format_duration(span.ns)}"


def _parse_gmet(text: str) -> Span:
    return Span(GMET_LEAST_NS, auto=True) if text == AUTO else _fixed(text)


def _write_gmet(span: Span) -> str:
    return AUTO if span.auto else format_duration(span.ns)


def _fixed(text: str) -> Span:
    try:
        return Span(parse_duration(text))
    except CoschedError as error:
        raise CoschedError(f"{error}, or {AUTO}") from None


def _parse_least_share(raw: Any) -> LeastShare:
    text = stripped(raw, 'a share; write it like "25%/30s"')
    percent, slash, period = text.partition("/")
    number = percent.strip().removesuffix("%")
    if not (slash and is_whole(number, most=100)):
        raise CoschedError(f"'{text}' is not a percentage and a period, such as 25%/30s")
    period_ns = parse_duration(period)
    if not NS_PER_S <= period_ns <= LENGTH_MAX_NS:
        raise CoschedError(f"the period {period} is not from 1s to a year")
    return LeastShare(parse_integer(number, "", 0, 100), period_ns)


def _write_least_share(least: LeastShare) -> str:
    return f"{least.percent}%/{format_duration(least.period_ns)}"


#: ``2s``, ``auto``, or ``auto:500ms`` (turns of 500 ms and more).
SLICE = Kind('duration | "auto" | "auto:LEAST"', timed(_parse_slice), _write_slice)
GMET = Kind('duration | "auto"', timed(_parse_gmet), _write_gmet)
#: ``25%/30s``: the percentage of the fair share, and the period.
LEAST_SHARE = Kind('"PERCENT%/TIME"', _parse_least_share, _write_least_share)
ORDER = member_of(Order)
FAIRNESS = member_of(Fairness)
#: The kinds of the settings that ``Settings.changed`` takes.
KINDS: Mapping[str, Kind[Any]] = {
    "slice": SLICE,
    "gmet": GMET,
    "align": SWITCH,
    "order": ORDER,
    "least_share": LEAST_SHARE,
    "fairness": FAIRNESS,
}
