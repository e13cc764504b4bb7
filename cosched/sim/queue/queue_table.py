"""Lays out the figures of queue runs as text of at most 80 columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from cosched.sim.queue.queue_runs import Outcome
from cosched.tables import table

HEAD = ("policy", "estimates", "wait", "median", "p95", "slowdown", "bounded", "used")
ALIGN = "<<>>>>>>"


def render(outcomes: Sequence[Outcome]) -> str:
    """Returns a block for each log; ends with a newline."""
    blocks = []
    for trace, group in groupby(outcomes, key=lambda outcome: outcome.run.trace):
        rows = list(group)
        first = rows[0]
        figures = first.figures
        lines = [
            trace.name,
            f"{figures['jobs']:g} jobs, {first.machine} nodes, load {figures['load']:.2f}",
        ]
        lines += left_out(first.skipped)
        lines += table(HEAD, map(_cells, rows), ALIGN)
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def left_out(skipped: Mapping[str, int]) -> list[str]:
    """Returns a line that counts the bad lines of a log, or nothing if it has none."""
    faults = ", ".join(f"{count} {fault}" for fault, count in skipped.items())
    return [f"lines left out: {faults}"] if faults else []


def _cells(outcome: Outcome) -> tuple[str, ...]:
    figures = outcome.figures
    return (
        outcome.run.policy,
        outcome.run.estimates.value,
        duration(figures["mean_wait_s"]),
        duration(figures["median_wait_s"]),
        duration(figures["p95_wait_s"]),
        f"{figures['mean_slowdown']:.1f}",
        f"{figures['mean_bounded_slowdown']:.1f}",
        f"{figures['utilisation']:.0%}",
    )


def duration(seconds: float) -> str:
    """Returns ``45 s``, ``12.3 min``, ``3.4 h`` or ``2.1 d``: enough digits to compare."""
    for unit, scale, least in (("d", 86400, 2), ("h", 3600, 1), ("min", 60, 2)):
        if seconds >= least * scale:
            return f"{seconds / scale:.1f} {unit}"
    return f"{seconds:.0f} s"
