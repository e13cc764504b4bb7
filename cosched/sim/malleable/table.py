"""The figures of malleable jobs as text of at most 80 columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from cosched.sim.malleable.runs import Case
from cosched.sim.queue.table import duration

HEAD = ("policy", "wait", "run", "total", "jobs/h", "harvests", "success")
WIDTHS = (-21, 9, 9, 9, 8, 9, 8)


def render(title: str, figures: Mapping[Case, Mapping[str, float]]) -> str:
    """A block for each minimum; ends with a newline."""
    blocks = [f"{title}\n"]
    for percent, cases in groupby(figures, key=lambda case: case.percent):
        lines = [f"minimum {percent}% of the ideal", _row(HEAD)]
        lines += [_row(_cells(case, figures[case])) for case in cases]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _cells(case: Case, figures: Mapping[str, float]) -> tuple[str, ...]:
    wanted = figures["requests"] > 0
    return (
        case.label,
        duration(figures["mean_wait_s"]),
        duration(figures["mean_execution_s"]),
        duration(figures["mean_total_s"]),
        f"{figures['throughput_per_h']:.2f}",
        f"{figures['harvests']:.2f}" if wanted else "",
        f"{figures['success']:.1%}" if wanted else "",
    )


def _row(cells: tuple[str, ...]) -> str:
    padded = (
        f"{cell:<{-width}}" if width < 0 else f"{cell:>{width}}"
        for cell, width in zip(cells, WIDTHS, strict=True)
    )
    return " ".join(padded).rstrip()
