"""Returns a finding that a judge of claims must refuse, for each kind of judge."""

from __future__ import annotations

from benchmarks.experiments.verdicts import (
    Above,
    Below,
    Cases,
    Finding,
    Judge,
    Near,
    Order,
    exact,
)


def refuting(by: Judge) -> Finding:
    """Returns a figure, or counts, to which the judge must say "no"."""
    match by:
        case Below(bound):
            return exact(bound + abs(bound))
        case Above(bound):
            return exact(bound - abs(bound))
        case Order(but):
            return Cases(0, but + 1)
        case Near(low, high, no_effect):
            most = low if high is None else high
            if no_effect is None:
                return exact(most * 2 if most else 1.0)
            if most > no_effect:
                return exact(no_effect - abs(most - no_effect))
            return exact(no_effect + abs(low - no_effect))
