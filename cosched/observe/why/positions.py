"""Describes in half a sentence why a job has its place in the order. Pure."""

from __future__ import annotations

from cosched.core.node.prospect import Prospect, Reason
from cosched.core.units import NS_PER_S

#: The cost of a job is named if it differs from what is left by more than this part.
DIFFERS_PART = 4


def in_words(place: Prospect, ran_ns: int | None = None, part: str = "of the time") -> str:
    """Describes the reason of a place.

    ran_ns: how long the job has run, if that is known. part: which part is guaranteed.
    """
    match place.reason:
        case Reason.ENDING:
            return "it is about to end"
        case Reason.DUE:
            return f"it must get its guaranteed part {part}"
        case Reason.LEFT:
            return f"about {span(place.left_ns)} left, {_source(place)}{_counts(place)}"
        case Reason.OUTLIVED:
            late_ns = place.age_ns - place.expected_ns
            expected = f"its expectation of {span(place.expected_ns)}"
            return f"it has outlived {expected} by {span(late_ns)}{_may_take(place)}"
    which = "it" if ran_ns in (None, place.age_ns) else "a job like it"
    return f"{which} has run for {span(place.age_ns)}{_may_take(place)}"


def _may_take(place: Prospect) -> str:
    """Returns how much more a job counts as taking whose length is not known."""
    return f" and may take {span(place.cost_ns)} more"


def _source(place: Prospect) -> str:
    if place.lengths == 1:
        return f"of {span(place.expected_ns)} expected"
    return f"from {place.lengths} earlier runs"


def _counts(place: Prospect) -> str:
    """Returns the cost of the job, unless what is left of it is about as much."""
    if abs(place.cost_ns - place.left_ns) * DIFFERS_PART <= place.left_ns:
        return ""
    return f" (perhaps only {span(place.cost_ns)}: some were short)"


def span(ns: int) -> str:
    """Formats a time for people: ``0.8 s``, ``25 s``, ``12 min``, ``3 h``."""
    seconds = ns / NS_PER_S
    if seconds < 0.095:
        return f"{seconds:.2f} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 600:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
