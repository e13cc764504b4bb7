"""Figures 9 to 16 of Weissman et al. (2003) as pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.experiments.malleable.points import (
    BASELINES,
    BEST,
    BETAS,
    DEGREES,
    EXAMINED,
    EXECUTIONS,
    PERCENTS,
    USERS,
    Measured,
    Point,
    system,
    users,
)
from benchmarks.pictures import picture

HOUR = 3600
AXES = {
    "mean_wait_s": "mean wait, h",
    "mean_execution_s": "mean execution, h",
    "mean_total_s": "mean total, h",
}
STYLES = {
    "ideal-only": ("black", "x", "-"),
    "ideal-backfill": ("#666666", "s", "-"),
    "moldable": ("#b58900", "d", "-"),
    "even-fr": ("#b2182b", "o", "-"),
    "even-fq": ("#2166ac", "o", "-"),
    "low-impact-fr": ("#ef8a62", "^", "--"),
    "low-impact-fq": ("#67a9cf", "^", "--"),
}
COMPARED = (*BASELINES, BEST)


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines over an axis: for each policy, a point at each place."""

    title: str  #: above the panel
    column: str  #: the drawn figure, a key of AXES
    places: Sequence[str]  #: the labels on the axis, from left to right
    axis: str  #: the words below the axis
    policies: Sequence[str]  #: a line for each, a key of STYLES
    #: The point of a policy at a place, which counts from 0.
    point: Callable[[str, int], Point]
    logarithmic: bool = False  #: the scale of the heights; False: linear


def _by_degree(column: str, percent: int) -> Panel:
    return Panel(
        f"minimum {percent}%", column, _degrees(), "degree of multiprogramming M", EXAMINED,
        lambda policy, place: system(policy, DEGREES[place], percent, "linear"),
    )  # fmt: skip


def _by_percent(column: str, degree: int | None) -> Panel:
    return Panel(
        f"M = {'no limit' if degree is None else degree}", column, _percents(),
        "minimum, % of the ideal", EXAMINED,
        lambda policy, place: system(policy, degree, PERCENTS[place], "linear"),
    )  # fmt: skip


def _compared(
    title: str, column: str, policies: Sequence[str], execution: str, logarithmic: bool
) -> Panel:
    return Panel(
        title, column, _percents(), "minimum, % of the ideal", policies,
        lambda policy, place: system(policy, None, PERCENTS[place], execution),
        logarithmic,
    )  # fmt: skip


def _by_beta(source: str, column: str, percent: int) -> Panel:
    return Panel(
        f"{source.upper()}, minimum {percent}%", column, [f"{beta:g}" for beta in BETAS],
        "interarrival parameter beta", COMPARED,
        lambda policy, place: users(source, BETAS[place], policy, percent),
        True,
    )  # fmt: skip


def _degrees() -> list[str]:
    return ["no limit" if degree is None else str(degree) for degree in DEGREES]


def _percents() -> list[str]:
    return [str(percent) for percent in PERCENTS]


def _comparison() -> list[Panel]:
    first = (*BASELINES, "even-fq")
    panels = []
    for execution in EXECUTIONS:
        panels.append(
            _compared(f"{execution}: wait", "mean_wait_s", first, execution, True)
        )
        panels += [
            _compared(f"{execution}: {name}", column, first[1:], execution, False)
            for name, column in (
                ("wait", "mean_wait_s"),
                ("execution", "mean_execution_s"),
                ("total", "mean_total_s"),
            )
        ]
    return panels


def panels_of(figure: str) -> tuple[str, list[Panel], int]:
    """Its title, its panels and how many stand in a row."""
    wait, total = "mean_wait_s", "mean_total_s"
    if figure == "fig9":
        return "Even-H-FQ beside the baselines", _comparison(), 4
    if figure == "fig10":
        return "Wait by M", [_by_degree(wait, percent) for percent in PERCENTS], 3
    if figure == "fig11":
        return "Total by M", [_by_degree(total, percent) for percent in PERCENTS], 3
    if figure == "fig12":
        return "Wait by the minimum", [_by_percent(wait, degree) for degree in DEGREES], 3
    if figure == "fig13":
        return "Total by the minimum", [_by_percent(total, degree) for degree in DEGREES], 3
    if figure == "fig14":
        panels = [
            _compared(name, column, COMPARED, "linear", True)
            for name, column in (("wait", wait), ("total", total))
        ]
        return "Low-Imp-FR beside the baselines", panels, 2
    column = {"fig15": wait, "fig16": total}[figure]
    panels = [_by_beta(*values) for values in product(USERS, [column], (50, 30, 10))]
    return f"Users' problems: {'wait' if column == wait else 'total'}", panels, 3


def draw(figure: str, measured: Measured, path: Path) -> None:
    """One picture of all panels of a figure."""
    title, panels, columns = panels_of(figure)
    rows = -(-len(panels) // columns)
    size = (3.6 * columns, 2.9 * rows)
    with picture(path, size=size, rows=rows, columns=columns) as (sheet, axes):
        for panel, axis in zip(panels, axes.flat, strict=False):
            _draw_panel(panel, axis, measured)
        for axis in axes.flat[len(panels) :]:
            axis.axis("off")
        axes.flat[0].legend(fontsize=7)
        sheet.suptitle(f"{title} (Fig. {figure.removeprefix('fig')})", fontsize=10)


def _draw_panel(panel: Panel, axis: Any, measured: Measured) -> None:
    places = range(len(panel.places))
    for policy in panel.policies:
        colour, marker, line = STYLES[policy]
        points = [measured[panel.point(policy, place)] for place in places]
        heights = [point[panel.column] / HOUR for point in points]
        style = {"color": colour, "marker": marker, "markersize": 4, "label": policy}
        axis.plot(places, heights, line, **style)
    axis.set_title(panel.title, fontsize=9)
    axis.set_xticks(places, panel.places, fontsize=8)
    axis.set_xlabel(panel.axis, fontsize=8)
    axis.set_ylabel(AXES[panel.column], fontsize=8)
    if panel.logarithmic:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
