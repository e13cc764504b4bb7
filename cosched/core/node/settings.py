"""What an operator may set on a node, and which values make sense."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cosched.core.errors import CoschedError
from cosched.core.node.slices.adapting import (
    FIXED_NS,
    GMET_LEAST_NS,
    LEAST_NS,
    LONGEST,
    gmet_of_turn_ns,
)
from cosched.core.units import NS_PER_MS, NS_PER_S, format_duration, parse_duration

SLICE_MIN_NS = NS_PER_MS
#: No slice or GMET is longer: a year. What adds up to a deadline stays below 2^63 ns.
LENGTH_MAX_NS = 366 * 24 * 3600 * NS_PER_S

AUTO = "auto"

_YES = {"on": True, "yes": True, "true": True, "1": True}
_NO = {"off": False, "no": False, "false": False, "0": False}


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A slice or a GMET as it is set: ``ns`` always, or, ``auto``, from ``ns`` on."""

    ns: int
    auto: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """The live settings of one node.

    slice_ns: how long a job stays scheduled before the next one's turn.
    gmet_ns: guaranteed minimum execution time; no trapped message takes the CPU from
        a job that has had it for less (section 2.1 of the paper).
    align: slices start at multiples of the slice in wall-clock time.
    slice_auto: ``slice_ns`` is the least slice, which grows with the jobs' age; see
        ``adapting``.
    gmet_auto: the guaranteed time follows the slice, from ``gmet_ns`` on.
    slice_most_ns, gmet_most_ns: what these two may come to by themselves; None: as far as
        suits.
    """

    slice_ns: int = 2 * NS_PER_S
    gmet_ns: int = 100 * NS_PER_MS
    align: bool = True
    slice_auto: bool = False
    gmet_auto: bool = False
    slice_most_ns: int | None = None
    gmet_most_ns: int | None = None

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
    def longest_slice_ns(self) -> int:
        """The longest that a job stays scheduled while others wait."""
        if not self.slice_auto:
            return self.slice_ns
        return max(self.slice_ns, _at_most(LONGEST * self.slice_ns, self.slice_most_ns))

    @property
    def slices_end_apart(self) -> bool:
        """Whether jobs side by side may each be amid a slice whenever one ends."""
        return self.slice_auto or not self.align

    @property
    def fixed_slice_ns(self) -> int:
        """The slice of a driver that gives all jobs the same."""
        return FIXED_NS if self.slice_auto else self.slice_ns

    def gmet_within_ns(self, turn_ns: int) -> int:
        """The guaranteed time within turns of ``turn_ns``."""
        if not self.gmet_auto:
            return self.gmet_ns
        return _at_most(gmet_of_turn_ns(turn_ns), self.gmet_most_ns)

    def texts(self) -> dict[str, str]:
        """What ``changed`` takes to come to these settings."""
        return {
            "slice": write_slice(self.slice),
            "gmet": write_gmet(self.gmet),
            "align": "on" if self.align else "off",
        }

    def warnings(self) -> tuple[str, ...]:
        """Settings that are allowed but may not mean what the operator thinks."""
        if not self.gmet_auto and self.gmet_ns >= self.slice_ns:
            which = "the least slice" if self.slice_auto else "slice"
            return (
                f"gmet {format_duration(self.gmet_ns)} is not below {which} "
                f"{format_duration(self.slice_ns)}: no message will pull a switch "
                "there, only the timer switches jobs",
            )
        return ()

    def changed(self, assignments: dict[str, str]) -> Settings:
        """These settings with ``name=value`` texts applied."""
        values: dict[str, int | bool] = {}
        for name, text in assignments.items():
            if name == "slice":
                span = parse_slice(text, name)
                values["slice_ns"], values["slice_auto"] = span.ns, span.auto
            elif name == "gmet":
                span = parse_gmet(text, name)
                values["gmet_ns"], values["gmet_auto"] = span.ns, span.auto
            elif name == "align":
                values["align"] = _parse_switch(text, name)
            else:
                raise CoschedError(
                    f"'{name}' is not a setting; the settings are slice, gmet, align"
                )
        return replace(self, **values)  # type: ignore[arg-type]


def _parse_switch(text: str, what: str) -> bool:
    word = text.strip().lower()
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise CoschedError(f"{what}: '{text}' is neither on nor off")


#: What nodes are set to unless told otherwise.
USUAL = Settings(LEAST_NS, GMET_LEAST_NS, align=True, slice_auto=True, gmet_auto=True)


def parse_slice(text: str, what: str) -> Span:
    """``2s``, ``auto``, or ``auto:500ms`` for slices of that and more."""
    word, colon, least = text.strip().partition(":")
    if word != AUTO:
        return _fixed(text, what)
    return Span(parse_duration(least, what) if colon else LEAST_NS, auto=True)


def write_slice(span: Span) -> str:
    """What ``parse_slice`` reads back."""
    if not span.auto:
        return format_duration(span.ns)
    return AUTO if span.ns == LEAST_NS else f"{AUTO}:{format_duration(span.ns)}"


def parse_gmet(text: str, what: str) -> Span:
    """``100ms``, or ``auto``."""
    if text.strip() == AUTO:
        return Span(GMET_LEAST_NS, auto=True)
    return _fixed(text, what)


def _fixed(text: str, what: str) -> Span:
    try:
        return Span(parse_duration(text, what))
    except CoschedError as error:
        raise CoschedError(f"{error}, or {AUTO}") from None


def write_gmet(span: Span) -> str:
    """What ``parse_gmet`` reads back."""
    return AUTO if span.auto else format_duration(span.ns)


def _at_most(ns: int, most_ns: int | None) -> int:
    return ns if most_ns is None else min(ns, most_ns)
