"""Reads the figures' quantities from a simulated start, in seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean, pstdev

from cosched.sim.startup.runs import StartupOutcome


def _tables(outcome: StartupOutcome) -> float:
    return max(outcome.exchange_s()[1])


def variation(outcome: StartupOutcome) -> float:
    """Returns the coefficient of variation of the nodes' times with all tables."""
    complete = outcome.exchange_s()[1]
    return pstdev(complete) / fmean(complete)


#: total: the dispatch time. object: until the last node has the job object, from the moment
#: when the manager begins to send. tables: until the last node has all tables, from the
#: moment when the first node has its own.
QUANTITIES: Mapping[str, Callable[[StartupOutcome], float]] = {
    "total": lambda outcome: outcome.total_s,
    "object": lambda outcome: max(outcome.arrivals_s()),
    "tables": _tables,
}
