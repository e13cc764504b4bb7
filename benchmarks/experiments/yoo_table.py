"""A figure's document as a table of at most 80 columns; what others read of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]
WIDTH = 80


def median(document: Document, point: Mapping[str, Any]) -> float | None:
    """What the figure shows of a point, in seconds; None if no run of it ended well."""
    spread = point[document["value"]]
    return None if spread is None else float(spread["median"])


def values(document: Document) -> dict[str, dict[str, float]]:
    """What ended well: by series, and there by x; both in the order of the plan."""
    found: dict[str, dict[str, float]] = {}
    for point in document["points"]:
        value = median(document, point)
        if value is not None:
            found.setdefault(point["series"], {})[point["x"]] = value
    return found


def ratio(document: Document, series: str, other: str, x: str) -> float | None:
    """One series over another at one place; None if either is missing."""
    found = values(document)
    top, bottom = found.get(series, {}).get(x), found.get(other, {}).get(x)
    return None if top is None or bottom is None else top / bottom


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
    lines += ["", *_notes(points)]
    return "\n".join(lines).rstrip() + "\n"


def _line(document: Document, point: Mapping[str, Any], label: int) -> str:
    start = f"  {point['series']:<{label}}"
    spread = point[document["value"]]
    if spread is None:
        return start + "  failed"
    line = f"{start}{spread['median']:>8.2f}"
    if spread["low"] != spread["high"]:
        line += f"  ({spread['low']:.2f} - {spread['high']:.2f})"
    reference = "batch" if document["value"] == "mean_wait_s" else _kernel(point["series"])
    beside = _beside(document, reference, point["x"])
    if beside and point["series"] != reference:
        line += f"  {spread['median'] / beside:.2f} of {reference.partition(',')[0]}'s"
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


def _clip(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."
