"""Emulates the points of a figure, reads its quantities, and makes its document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev

from benchmarks.experiments.startup.documents import MIDDLE, Point
from benchmarks.experiments.startup.plans import ALONE, COSTS, Emulated
from cosched.sim.startup.startup_runs import StartupOutcome, carry_out
from cosched.sim.virtual_time import Progress, no_progress

#: The nodes of these designs are shown one by one. The last node of another one counts.
SHOWN_BY_NODE = ("new", "pipelined")


def _tables(outcome: StartupOutcome) -> float:
    return max(outcome.exchange_s()[1])


def variation(outcome: StartupOutcome) -> float:
    """Returns the coefficient of variation of the nodes' times with all tables."""
    complete = outcome.exchange_s()[1]
    return pstdev(complete) / fmean(complete)


#: The quantities of figures, in seconds. total: the dispatch time. object: until the last
#: node has the job object, from the moment when the manager begins to send. tables: until
#: the last node has all tables, from the moment when the first node has its own.
QUANTITIES: Mapping[str, Callable[[StartupOutcome], float]] = {
    "total": lambda outcome: outcome.total_s,
    "object": lambda outcome: max(outcome.arrivals_s()),
    "tables": _tables,
}


@dataclass(frozen=True, slots=True)
class Done:
    """A point and its outcome."""

    run: Emulated  #: the point
    values: dict[tuple[str, int], float]  #: in seconds, by series and x; empty: not shown
    summary: dict[str, float]  #: figures beside them, by name


def emulate(point: Emulated, progress: Progress = no_progress) -> Done:
    """Emulates one point at its costs."""
    outcome = carry_out(point.run, progress)
    summary = {
        point.quantity: QUANTITIES[point.quantity](outcome),
        "messages": float(outcome.messages),
        "bytes": float(outcome.bytes),
    }
    if point.figure == "fig10a":
        summary["variation"] = variation(outcome)
        shown = {}
        if point.costs == MIDDLE and point.series in SHOWN_BY_NODE:
            shown = _by_node(point, outcome)
        return Done(point, shown, summary)
    if point.figure == "fig11a":
        arrivals = outcome.arrivals_s()
        return Done(
            point,
            {(point.series, depth): at for depth, at in enumerate(arrivals)},
            summary,
        )
    if point.quantity == "total":
        summary |= {part.value: time for part, time in outcome.parts_s().items()}
    return Done(point, {(point.series, point.x): summary[point.quantity]}, summary)


def _by_node(point: Emulated, outcome: StartupOutcome) -> dict[tuple[str, int], float]:
    """Returns when each node had the tables below it and all tables. The nodes are numbered
    by level from the leaves up; the root is left out."""
    partial, complete = outcome.exchange_s()
    levels = outcome.run.tree.levels(0)[:0:-1]
    places = [place for level in levels for place in level]
    found = {}
    for number, place in enumerate(places, 1):
        found[f"{point.series}: all", number] = complete[place]
        below = partial[place]
        if below is not None:
            found[f"{point.series}: below", number] = below
    return found


def collect(done: Sequence[Done]) -> list[Point]:
    """Returns the points of a figure: each with its values by costs."""
    points: dict[tuple[str, int], Point] = {}
    for one in done:
        for (series, x), value in one.values.items():
            point = points.setdefault((series, x), Point(series, x))
            point.values[one.run.costs] = value
    return list(points.values())


def summaries(done: Sequence[Done]) -> list[dict[str, object]]:
    """Returns the figures beside the points: the parts of dispatch times, and messages."""
    return [
        {
            "series": one.run.series,
            "x": one.run.x,
            "nodes": one.run.start.nodes,
            "costs": one.run.costs,
            **one.summary,
        }
        for one in done
    ]


def costs() -> dict[str, dict[str, float]]:
    """Returns all costs by their names."""
    return {name: asdict(each) for name, each in {**COSTS, **ALONE}.items()}
