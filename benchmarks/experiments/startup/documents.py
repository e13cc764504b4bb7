"""Defines the figures as documents: one JSON file a figure, measured, emulated or live.

``values`` of a point has its seconds or bytes by case: the number of a run, or the name of
the costs that were emulated. Points of two series at one x with the same cases can be
divided case by case. In a live document each point has ``run``, the arguments of a
``StartupRun``, and the document has ``costs`` and ``quantity``, so that the same start can
be emulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.experiments.verdicts import Measured, over_cases
from cosched.core.errors import CoschedError
from cosched.documents import read_json
from cosched.tables import table

FORMAT = "cosched-startup-figure-1"
#: The costs whose values are shown; a figure's range is that of all costs.
MIDDLE = "middle"
#: A text has a line for each x, or for some of them if there are more.
MOST_LINES = 40
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Title:
    """The words of a figure."""

    figure: str  #: its key in TITLES: fig9a
    text: str  #: above the figure
    x: str  #: the words below its axis
    y: str  #: the unit of its values
    factor: float  #: from seconds or bytes to that unit
    logarithmic: bool = True  #: both scales; False: both are linear


@dataclass(slots=True)
class Point:
    """A value at x of one series."""

    series: str  #: the line that it is on
    x: int  #: its place on the axis
    values: dict[str, float] = field(default_factory=dict)  #: seconds or bytes by case


def document(
    title: Title, points: Sequence[Point], command: str, **more: object
) -> dict[str, Any]:
    """Returns a figure as JSON; live is False unless ``more`` says otherwise."""
    return {
        "format": FORMAT,
        "figure": title.figure,
        "live": False,
        "title": title.text,
        "xlabel": title.x,
        "ylabel": title.y,
        "factor": title.factor,
        "logarithmic": title.logarithmic,
        "command": command,
        **more,
        "points": [asdict(point) for point in points],
    }


def read(path: Path) -> dict[str, Any]:
    """Reads a figure. Raises CoschedError for another file."""
    found = read_json(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CoschedError(f"{path}: is no figure of this experiment")
    return found


def values(found: Document, series: str, x: int) -> dict[str, float]:
    """Returns the values of a point by case; none if it is not there."""
    for point in found["points"]:
        if (point["series"], point["x"]) == (series, x):
            return dict(point["values"])
    return {}


def xs(found: Document, series: str) -> list[int]:
    """Returns the places of a series, ascending."""
    return sorted({point["x"] for point in found["points"] if point["series"] == series})


def all_series(found: Document) -> list[str]:
    """Returns the names of all series, in their order."""
    return list(dict.fromkeys(point["series"] for point in found["points"]))


def measured(found: Document, series: str, x: int) -> Measured | None:
    """Returns the extent of a point over its cases."""
    cases = values(found, series, x)
    return extent(cases) if found.get("emulated") else _of_runs(cases)


def extent(cases: Mapping[str, float]) -> Measured | None:
    """Returns the middle and the ends of a figure's cases; None without any."""
    if not cases:
        return None
    found = over_cases(cases.values())
    return Measured(cases.get(MIDDLE, found.middle), found.low, found.high)


def ratio(found: Document, series: str, other: str, x: int) -> Measured | None:
    """Returns one series over another at x; case by case if both have the same costs."""
    return _over(found, values(found, series, x), values(found, other, x))


def growth(found: Document, series: str, x: int, from_x: int) -> Measured | None:
    """Returns the value at x over that at ``from_x``."""
    return _over(found, values(found, series, x), values(found, series, from_x))


def _over(
    found: Document, top: Mapping[str, float], bottom: Mapping[str, float]
) -> Measured | None:
    if found.get("emulated"):
        return extent({case: top[case] / bottom[case] for case in top if case in bottom})
    one, other = _of_runs(top), _of_runs(bottom)
    return None if one is None or other is None else one.over(other)


def _of_runs(runs: Mapping[str, float]) -> Measured | None:
    """Returns the median and the ends of a measured point's runs; None without any. A
    single one decides nothing."""
    return over_cases(runs.values(), repeated=len(runs) > 1) if runs else None


def text(found: Document) -> str:
    """Returns the figure as a table: a line an x, a column a series; medians."""
    names = all_series(found)
    rows = []
    places = sorted({point["x"] for point in found["points"]})
    for x in places[:: max(1, -(-len(places) // MOST_LINES))]:
        cells = []
        for name in names:
            here = measured(found, name, x)
            cells.append("" if here is None else _number(here.middle * found["factor"]))
        rows.append((str(x), *cells))
    head = (found["xlabel"], *names)
    lines = [found["title"], f"{found['ylabel']}; {found['command']}", ""]
    return "\n".join([*lines, *table(head, rows, ">" * len(head), width=100)]) + "\n"


def _number(value: float) -> str:
    return f"{value:.4g}" if value < 1e4 else f"{value:.0f}"
