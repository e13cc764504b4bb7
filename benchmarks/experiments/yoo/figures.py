"""Draws Yoo and Jette's figures with their axes, and the map of the fleet."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from benchmarks.experiments.yoo.yoo_table import Document, places, spread, values
from benchmarks.pictures import picture

COLOURS = {
    "batch": "#878787",
    "kernel": "#d6604d",
    "yield": "#f4a582",
    "block": "#fddbc7",
    "gang": "#4d4d4d",
    "slurm-gang": "#b8a0c8",
    "messages": "#92c5de",
    "paper": "#80b860",
    "strict": "#4393c3",
    "proportional": "#2166ac",
    "cosched": "#2166ac",
}
HUES = {"1": "#2166ac", "2": "#b2182b", "3": "#4d9221"}
MARKS = {"1": "o", "2": "s", "3": "^"}
#: The ratios to an arm that the paper's text gives, by figure and place; "": everywhere.
PAPERS = {
    ("fig2", "2"): ("kernel", 0.50),
    ("fig3", "2"): ("kernel", 0.15),
    ("fig4", ""): ("batch", 0.59),
}
#: The names of more places have two lines.
MANY_PLACES = 6
SECONDS = {"mean_response_s": "mean response, s", "mean_wait_s": "mean wait, s"}


def draw(document: Document, path: Path) -> None:
    """Draws the figure, in the format of the file name."""
    if document["figure"] == "fleet":
        _map(document, path)
        return
    with picture(path, size=(7, 4.4 if _has_lines(document) else 4), dpi=110) as drawn:
        figure, ((axes,),) = drawn
        (_lines if _has_lines(document) else _bars)(figure, axes, document)
        axes.set_xlabel(document["xlabel"])
        speed = " at the usual speed" if document.get("speeds") else ""
        axes.set_ylabel(SECONDS[document["value"]] + speed)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(document["title"], fontsize=10)


def _has_lines(document: Document) -> bool:
    return document["figure"] in ("fig5", "fig6", "auto")


def _bars(figure: Any, axes: Any, document: Document) -> None:
    """A group of bars at each x, one an arm, with the range of its runs."""
    xs, found = places(document), values(document)
    beside = max((sum(x in by_x for by_x in found.values()) for x in xs), default=1)
    width = 0.8 / max(1, beside)
    spreads = {(p["series"], p["x"]): spread(document, p) for p in document["points"]}
    ended = {place: around for place, around in spreads.items() if around is not None}
    for place, (series, by_x) in enumerate(found.items()):
        offset = width * (place - (len(found) - 1) / 2) if beside > 1 else 0.0
        where = [xs.index(x) + offset for x in by_x]
        ranges: tuple[list[float], list[float]] = ([], [])
        for x, value in by_x.items():
            ranges[0].append(value - ended[series, x]["low"])
            ranges[1].append(ended[series, x]["high"] - value)
        axes.bar(where, by_x.values(), width * 0.92, color=COLOURS[series], label=series)
        axes.errorbar(where, by_x.values(), ranges, fmt="none", ecolor="black", lw=0.8)
    _papers(axes, document["figure"], found, xs)
    many = len(xs) > MANY_PLACES
    names = [x.replace(", ", ",\n") for x in xs] if many else xs
    axes.set_xticks(range(len(xs)), names, fontsize=7 if many else None)
    if len(found) > 1:
        figure.legend(loc="outside right center", fontsize=8, frameon=False)


def _papers(
    axes: Any, figure: str, found: dict[str, dict[str, float]], xs: list[str]
) -> None:
    """Draws the paper's values as dashed lines, by their ratios to one of our arms."""
    for (of, x), (arm, share) in PAPERS.items():
        heights = found.get(arm, {})
        if of != figure or not heights or (x and x not in heights):
            continue  # a quick figure lacks some places
        place = xs.index(x) if x else None
        height = share * (heights[x] if x else next(iter(heights.values())))
        ends = (-0.5, len(xs) - 0.5) if place is None else (place - 0.45, place + 0.45)
        label = f"the paper's: {share:.2f} of {arm}'s"
        axes.hlines(height, *ends, color="black", ls="--", lw=1.2, label=label)


def _lines(figure: Any, axes: Any, document: Document) -> None:
    """A colour a workload: a line along the axis, and levels of arms without an axis, the
    kernel's dotted and cosched's dashed."""
    xs = [x for x in places(document) if x != "any"]
    for series, by_x in values(document).items():
        arm, _, workload = series.partition(", workload ")
        style = {"color": HUES[workload], "lw": 1.4, "label": series}
        if "any" in by_x:
            axes.axhline(by_x["any"], ls=":" if arm == "kernel" else "--", **style)
            continue
        where = [xs.index(x) for x in by_x]
        axes.plot(where, by_x.values(), "-", marker=MARKS[workload], ms=5, **style)
    axes.set_xticks(range(len(xs)), xs)
    figure.legend(loc="outside right center", fontsize=8, frameon=False)


def _map(document: Document, path: Path) -> None:
    """A square a grain and DOM, one panel a placement; blue is where cosched is ahead."""
    from matplotlib.colors import TwoSlopeNorm

    found, grains = values(document), places(document)
    ways = [series.split(", ")[1:] for series in found]
    placements = list(dict.fromkeys(placement for placement, _ in ways))
    doms = sorted({dom for _, dom in ways}, key=int)
    size, columns = (1.2 + 3.1 * len(placements), 2.6), len(placements)
    norm = TwoSlopeNorm(1.0, 0.4, 1.6)
    image = None
    with picture(path, size=size, columns=columns, dpi=110, share_y=True) as drawn:
        figure, (panels,) = drawn
        for panel, placement in zip(panels, placements, strict=True):
            rows = [[_paid(found, placement, dom, x) for x in grains] for dom in doms]
            image = panel.imshow(
                rows, cmap="RdBu_r", norm=norm, aspect="auto", origin="lower"
            )
            for row, cells in enumerate(rows):
                for column, cell in enumerate(cells):
                    text = f"{cell:.2f}" if math.isfinite(cell) else "-"
                    panel.text(column, row, text, ha="center", va="center", fontsize=9)
            panel.set_xticks(range(len(grains)), [_microseconds(x) for x in grains])
            panel.set_yticks(range(len(doms)), doms)
            panel.set_title(placement, fontsize=9)
            panel.set_xlabel(document["xlabel"], fontsize=8)
        panels[0].set_ylabel("jobs at once")
        figure.colorbar(image, ax=panels.tolist(), label="cosched / kernel")
        figure.suptitle(document["title"], fontsize=10)


def _paid(
    found: dict[str, dict[str, float]], placement: str, dom: str, grain: str
) -> float:
    sides = [found.get(f"{a}, {placement}, {dom}", {}).get(grain) for a in ARMS]
    top, bottom = sides
    return float("nan") if top is None or bottom is None else top / bottom


ARMS = ("cosched", "kernel")


def _microseconds(units: str) -> str:
    """A unit of bulk.c is about a nanosecond."""
    us = int(units) / 1000
    return f"{us:g} us" if us < 1000 else f"{us / 1000:g} ms"
