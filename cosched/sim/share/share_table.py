"""Lays out the figures of shared machines as text of at most 80 columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from cosched.sim.queue.queue_table import duration, left_out
from cosched.sim.share.share_runs import Outcome
from cosched.tables import table

HEAD = ("queue", "wait", "response", "slowdown", "p95", "longest", "used", "of the first")
ALIGN = "<>>>>>>>"
SLOWDOWN = "mean_bounded_slowdown"
#: A ratio that differs from 1 by less is called about the same.
SAME = 0.05
MEMORY = "Such logs have no memory figures: all jobs of a node are assumed to fit."


def render(outcomes: Sequence[Outcome]) -> str:
    """Returns a block for each log, whose first row is the machine without sharing."""
    blocks = []
    for trace, group in groupby(outcomes, key=lambda outcome: outcome.run.trace):
        rows = list(group)
        first = rows[0]
        lines = [
            trace.name,
            f"{first.jobs} jobs, {first.machine} nodes, load {first.figures['load']:.2f}",
            *left_out(first.skipped),
            *table(HEAD, [_cells(row, first) for row in rows], ALIGN),
            *(_verdict(row, first) for row in rows[1:]),
        ]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join([*blocks, MEMORY]) + "\n"


def _cells(outcome: Outcome, first: Outcome) -> tuple[str, ...]:
    figures = outcome.figures
    return (
        outcome.run.name,
        duration(figures["mean_wait_s"]),
        duration(figures["mean_response_s"]),
        f"{figures[SLOWDOWN]:.1f}",
        f"{figures['p95_bounded_slowdown']:.1f}",
        duration(figures["max_response_s"]),
        f"{figures['utilisation']:.0%}",
        f"{_ratio(SLOWDOWN, outcome, first):.2f}",
    )


def _verdict(outcome: Outcome, first: Outcome) -> str:
    """Compares a shared machine with the first row."""
    return (
        f"shared: slowdown {_compared(_ratio(SLOWDOWN, outcome, first))}, "
        f"response {_compared(_ratio('mean_response_s', outcome, first))}, "
        f"longest {_compared(_ratio('max_response_s', outcome, first))}"
    )


def _ratio(figure: str, outcome: Outcome, first: Outcome) -> float:
    return outcome.figures[figure] / first.figures[figure]


def _compared(ratio: float) -> str:
    if abs(ratio - 1) < SAME:
        return "about the same"
    return f"{'better' if ratio < 1 else 'worse'} ({ratio:.2f})"
