"""The figures of runs as text of at most 80 columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from cosched.sim.queue.runs import Outcome

HEAD = ("policy", "estimates", "wait", "median", "p95", "slowdown", "bounded", "used")
WIDTHS = (-13, -9, 9, 9, 9, 9, 9, 6)


def render(outcomes: Sequence[Outcome]) -> str:
    """A block for each trace; ends with a newline."""
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
        lines.append(_row(HEAD))
        lines += [_row(_cells(outcome)) for outcome in rows]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def left_out(skipped: Mapping[str, int]) -> list[str]:
    """A line about those lines of a log that are not in a workload, if there were any."""
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


def _row(cells: Sequence[str]) -> str:
    padded = (
        f"{cell:<{-width}}" if width < 0 else f"{cell:>{width}}"
        for cell, width in zip(cells, WIDTHS, strict=True)
    )
    return " ".join(padded).rstrip()


def duration(seconds: float) -> str:
    """``45 s``, ``12.3 min``, ``3.4 h``, ``2.1 d``: three digits are enough to compare."""
    for unit, scale, least in (("d", 86400, 2), ("h", 3600, 1), ("min", 60, 2)):
        if seconds >= least * scale:
            return f"{seconds / scale:.1f} {unit}"
    return f"{seconds:.0f} s"
