"""Writes a figure's document as a table of at most 80 columns, and reads it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.experiments.verdicts import Measured
from cosched.bench.results.results_table import known_lengths

Document = Mapping[str, Any]
WIDTH = 80


def spread(
    document: Document, point: Mapping[str, Any], value: str | None = None
) -> dict[str, float] | None:
    """Returns median, low and high of a point's runs, in seconds.

    They are at equal speed of the machine if the speed differed. None if no run ended well.
    ``value``: such as ``makespan_s``; by default the value that the figure shows.
    """
    figures = point.get("level") or point
    found: dict[str, float] | None = figures[value or document["value"]]
    return found


def values(document: Document, value: str | None = None) -> dict[str, dict[str, float]]:
    """Medians of what ended well: by series, and there by x; both in the order of the plan.
    value: as for ``spread``."""
    found: dict[str, dict[str, float]] = {}
    for point in document["points"]:
        seconds = spread(document, point, value)
        if seconds is not None:
            found.setdefault(point["series"], {})[point["x"]] = seconds["median"]
    return found


def measured(
    document: Document, series: str, x: str, value: str | None = None
) -> Measured | None:
    """Returns the runs of one series at one place; None if none of them ended well."""
    for point in document["points"]:
        seconds = spread(document, point, value)
        if (point["series"], point["x"]) == (series, x) and seconds is not None:
            return Measured(
                seconds["median"], seconds["low"], seconds["high"], point["counted"] > 1
            )
    return None


def ratio(
    document: Document, series: str, other: str, x: str, value: str | None = None
) -> Measured | None:
    """Returns one series over another at one place; None if either is missing."""
    top = measured(document, series, x, value)
    bottom = measured(document, other, x, value)
    return None if top is None or bottom is None else top.over(bottom)


def places(document: Document) -> list[str]:
    """Every x once, in order."""
    return list(dict.fromkeys(point["x"] for point in document["points"]))


def text_table(document: Document) -> str:
    """Title, how it was made, a line a point, and what went wrong."""
    points = document["points"]
    lines = [_clip(document["title"]), _clip(_setting(document)), ""]
    lines.append(f"{document['xlabel']}, and seconds (least - greatest)"[:WIDTH])
    label = max(len(point["series"]) for point in points) + 2
    for x in places(document):
        lines.append(x)
        lines += [_line(document, p, label) for p in points if p["x"] == x]
    lines += [
        "",
        *_notes(points),
        *_speed(document),
        *known_lengths(document.get("seen", 0)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _line(document: Document, point: Mapping[str, Any], label: int) -> str:
    start = f"  {point['series']:<{label}}"
    found = spread(document, point)
    if found is None:
        return start + "  failed"
    line = f"{start}{found['median']:>8.2f}"
    if found["low"] != found["high"]:
        line += f"  ({found['low']:.2f} - {found['high']:.2f})"
    reference = "batch" if document["value"] == "mean_wait_s" else _kernel(point["series"])
    beside = _beside(document, reference, point["x"])
    if beside and point["series"] != reference:
        line += f"  {found['median'] / beside:.2f} of {reference.partition(',')[0]}'s"
    return line


def _kernel(series: str) -> str:
    """The series of the kernel beside this one: only the arm differs."""
    _arm, comma, rest = series.partition(",")
    return f"kernel{comma}{rest}"


def _beside(document: Document, series: str, x: str) -> float | None:
    """A reference at x; one that is the same everywhere stands at one place."""
    found = values(document).get(series, {})
    return found.get(x, next(iter(found.values()), None) if len(found) == 1 else None)


def _setting(document: Document) -> str:
    mpi = document["mpi"]
    parts = [f"{mpi['family']} {mpi['version']}"] if mpi else []
    parts.append(f"{len(document['hosts'])} nodes")
    parts.append(f"{document['scale']} sizes")
    parts += ["quick: times mean nothing"] if document["quick"] else []
    return ", ".join(parts)


def _notes(points: Sequence[Mapping[str, Any]]) -> list[str]:
    counts = sorted({point["counted"] for point in points})
    lines = [f"medians of {' or '.join(map(str, counts))} runs"]
    loads = [p["outside_load"] for p in points if p["outside_load"] is not None]
    if loads:
        lines.append(f"outside load: at most {max(loads):.1%} of the nodes' CPUs in a run")
    disturbed = sum(point["disturbed"] for point in points)
    if disturbed:
        lines.append(f"{disturbed} points rest on disturbed runs: measure again")
    lines += [
        _clip(f"failed: {point['series']} {point['x']}: {point['failure']}")
        for point in points
        if point["failure"]
    ]
    return lines


def _speed(document: Document) -> list[str]:
    found = document.get("speeds")
    if found is None:
        return []
    least, most = found
    return [
        f"the machine ran at {least:.2f} to {most:.2f} of its usual speed; seconds here",
        "are as at the usual speed, the JSON has the clock's",
    ]


def _clip(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."
