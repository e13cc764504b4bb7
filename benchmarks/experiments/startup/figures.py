"""Draws the figures as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.experiments.startup.documents import Document, all_series, measured, xs
from benchmarks.pictures import picture

COLOURS = {
    "old": "#d6604d",
    "new": "#4393c3",
    "pipelined": "#2166ac",
    "through-root": "#878787",
    "1 KB": "#b2182b",
    "4 KB": "#ef8a62",
    "16 KB": "#67a9cf",
    "64 KB": "#2166ac",
}


def draw(found: Document, path: Path) -> None:
    """Draws a figure."""
    with picture(path, size=(6, 3.6), dpi=100) as (_, panels):
        axes = panels[0][0]
        for series in all_series(found):
            _line(axes, found, series)
        if found["logarithmic"]:
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            places = sorted({x for series in all_series(found) for x in xs(found, series)})
            axes.set_xticks(places, [str(x) for x in places], fontsize=7)
            axes.minorticks_off()
        else:
            axes.set_ylim(bottom=0)
        axes.set_xlabel(found["xlabel"])
        axes.set_ylabel(found["ylabel"])
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(f"{found['title']} ({_number(found)})", fontsize=10)
        axes.legend(fontsize=7, frameon=False)


def _line(axes: Any, found: Document, series: str) -> None:
    places = xs(found, series)
    dots = "-" if len(places) > 30 else "o-"
    style = {"color": _colour(series), "label": series, "markersize": 3, "linewidth": 1.2}
    if series.endswith(": below"):
        style["alpha"] = 0.5
    axes.plot(places, [_height(found, series, x) for x in places], dots, **style)
    if len(places) > 30:
        return
    factor = found["factor"]
    extents = {x: measured(found, series, x) for x in places}
    ranges = {x: here for x, here in extents.items() if here and here.low < here.high}
    lows = [here.low * factor for here in ranges.values()]
    highs = [here.high * factor for here in ranges.values()]
    axes.fill_between(list(ranges), lows, highs, color=_colour(series), alpha=0.15, lw=0)


def _height(found: Document, series: str, x: int) -> float:
    here = measured(found, series, x)
    assert here is not None
    return here.middle * float(found["factor"])


def _colour(series: str) -> str:
    return COLOURS.get(series.partition(":")[0], "#333333")


def _number(found: Document) -> str:
    """Returns the number of the paper's figure."""
    return "Fig. " + str(found["figure"]).removeprefix("fig").partition("-")[0].upper()
