"""Lays out the figures of malleable jobs as text of at most 80 columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from cosched.sim.malleable.malleable_runs import Case
from cosched.sim.queue.queue_table import duration
from cosched.tables import table

HEAD = ("policy", "wait", "run", "total", "jobs/h", "harvests", "success")
ALIGN = "<>>>>>>"


def render(title: str, figures: Mapping[Case, Mapping[str, float]]) -> str:
    """Returns a block for each minimum; ends with a newline."""
    blocks = [f"{title}\n"]
    for percent, cases in groupby(figures, key=lambda case: case.percent):
        lines = [f"minimum {percent}% of the ideal"]
        lines += table(HEAD, (_cells(case, figures[case]) for case in cases), ALIGN)
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
