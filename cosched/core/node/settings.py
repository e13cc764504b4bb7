"""Holds the settings of a node that an operator may change, and parses their texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_MS, NS_PER_S, format_duration, parse_duration

SLICE_MIN_NS = NS_PER_MS
#: The longest slice or GMET: a year. Deadlines that are sums of these stay below 2^63 ns.
LENGTH_MAX_NS = 366 * 24 * 3600 * NS_PER_S

AUTO = "auto"
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

_YES = {"on": True, "yes": True, "true": True, "1": True}
_NO = {"off": False, "no": False, "false": False, "0": False}


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A slice or a GMET as it is set: always ``ns``, or, if ``auto``, at least ``ns``."""

    ns: int
    auto: bool = False


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

    percent: int = 25
    period_ns: int = 30 * NS_PER_S

    @property
    def reserved_ns(self) -> int:
        """The part of a period that all jobs of a group are guaranteed together."""
        return self.period_ns * self.percent // 100


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one node.

    slice_ns: how long a job stays scheduled before the next job's turn.
    gmet_ns: the guaranteed minimum execution time. No trapped message takes the CPU from a
        job that has run for less (section 2.1 of the paper).
    align: slices end at multiples of the slice by the wall clock.
    slice_auto: turns follow the age of the jobs, from ``slice_ns`` on; see
        ``slices.adaptive``.
    gmet_auto: GMET follows the turn, from ``gmet_ns`` on.
    slice_most_ns, gmet_most_ns: limits of the two adaptive lengths; None: no limit.
    order: the order of the jobs. ``rest`` and ``age`` count if the slice is ``auto``;
        otherwise jobs take turns. ``paper`` has a fixed slice that is not aligned.
    least_share, fairness: the time that each job gets in any order; see ``guarantee``.
    """

    slice_ns: int = 2 * NS_PER_S
    gmet_ns: int = 100 * NS_PER_MS
    align: bool = True
    slice_auto: bool = False
    gmet_auto: bool = False
    slice_most_ns: int | None = None
    gmet_most_ns: int | None = None
    order: Order = Order.REST
    least_share: LeastShare = LeastShare()
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
        return {
            "slice": write_slice(self.slice),
            "gmet": write_gmet(self.gmet),
            "align": "on" if self.align else "off",
            "order": self.order.value,
            "least_share": write_least_share(self.least_share),
            "fairness": self.fairness.value,
        }

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
        if not self.gmet_auto and self.gmet_ns >= self.slice_ns:
            which = "the least slice" if self.slice_auto else "slice"
            return (
                f"gmet {format_duration(self.gmet_ns)} is not below {which} "
                f"{format_duration(self.slice_ns)}: no message will pull a switch "
                "there, only the timer switches jobs",
            )
        return ()

    def changed(self, assignments: dict[str, str]) -> Settings:
        """Returns these settings with the given texts applied."""
        values: dict[str, Any] = {}
        for name, text in assignments.items():
            if name == "slice":
                span = parse_slice(text, name)
                values["slice_ns"], values["slice_auto"] = span.ns, span.auto
            elif name == "gmet":
                span = parse_gmet(text, name)
                values["gmet_ns"], values["gmet_auto"] = span.ns, span.auto
            elif name == "align":
                values["align"] = _parse_switch(text, name)
            elif name == "order":
                values["order"] = parse_order(text, name)
            elif name == "least_share":
                values["least_share"] = parse_least_share(text, name)
            elif name == "fairness":
                values["fairness"] = parse_fairness(text, name)
            else:
                raise CoschedError(
                    f"'{name}' is not a setting; the settings are {', '.join(self.texts())}"
                )
        return replace(self, **values)


def _parse_switch(text: str, what: str) -> bool:
    word = text.strip().lower()
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise CoschedError(f"{what}: '{text}' is neither on nor off")


#: The default settings of a node.
USUAL = Settings(LEAST_NS, GMET_LEAST_NS, align=True, slice_auto=True, gmet_auto=True)


def parse_slice(text: str, what: str) -> Span:
    """Parses ``2s``, ``auto``, or ``auto:500ms`` (turns of 500 ms and more)."""
    word, colon, least = text.strip().partition(":")
    if word != AUTO:
        return _fixed(text, what)
    return Span(parse_duration(least, what) if colon else LEAST_NS, auto=True)


def write_slice(span: Span) -> str:
    """Returns the text that ``parse_slice`` reads."""
    if not span.auto:
        return format_duration(span.ns)
    return AUTO if span.ns == LEAST_NS else f"{AUTO}:{format_duration(span.ns)}"


def parse_gmet(text: str, what: str) -> Span:
    """Parses ``100ms`` or ``auto``."""
    if text.strip() == AUTO:
        return Span(GMET_LEAST_NS, auto=True)
    return _fixed(text, what)


def _fixed(text: str, what: str) -> Span:
    try:
        return Span(parse_duration(text, what))
    except CoschedError as error:
        raise CoschedError(f"{error}, or {AUTO}") from None


def write_gmet(span: Span) -> str:
    """Returns the text that ``parse_gmet`` reads."""
    return AUTO if span.auto else format_duration(span.ns)


def gmet_of_turn_ns(turn_ns: int) -> int:
    """Returns the GMET of ``auto`` within turns of ``turn_ns``."""
    least_ns = min(GMET_LEAST_NS, turn_ns // GMET_LARGEST_PART)
    return min(max(turn_ns // GMET_PART, least_ns), GMET_MOST_NS)


def at_most(ns: int, most_ns: int | None) -> int:
    """Returns ``ns``, limited to ``most_ns`` if there is a limit."""
    return ns if most_ns is None else min(ns, most_ns)


def parse_order(text: str, what: str) -> Order:
    """Parses ``rest``, ``age`` or ``paper``."""
    return _parse_name(Order, text, what)


def parse_fairness(text: str, what: str) -> Fairness:
    """Parses ``jobs`` or ``users``."""
    return _parse_name(Fairness, text, what)


_Name = TypeVar("_Name", bound=Enum)


def _parse_name(kind: type[_Name], text: str, what: str) -> _Name:
    word = text.strip().lower()
    for member in kind:
        if member.value == word:
            return member
    names = " or ".join(member.value for member in kind)
    raise CoschedError(f"{what}: '{text}' is not {names}")


def parse_least_share(text: str, what: str) -> LeastShare:
    """Parses ``25%/30s``: the percentage of the fair share, and the period."""
    percent, slash, period = text.strip().partition("/")
    number = percent.strip().removesuffix("%")
    if not (slash and is_whole(number, most=100)):
        raise CoschedError(
            f"{what}: '{text}' is not a percentage and a period, such as 25%/30s"
        )
    period_ns = parse_duration(period, what)
    if not NS_PER_S <= period_ns <= LENGTH_MAX_NS:
        raise CoschedError(f"{what}: the period {period} is not from 1s to a year")
    return LeastShare(parse_integer(number, what, 0, 100), period_ns)


def write_least_share(least: LeastShare) -> str:
    """Returns the text that ``parse_least_share`` reads."""
    return f"{least.percent}%/{format_duration(least.period_ns)}"
