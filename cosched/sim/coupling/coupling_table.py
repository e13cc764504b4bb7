"""Lays out the figures of coupled runs as text of at most 80 columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.cluster.coupling.groups import Timing
from cosched.core.units import format_duration
from cosched.sim.coupling.logs import CoupledOutcome
from cosched.sim.queue.queue_table import duration, left_out
from cosched.tables import table

HEAD = ("schemes", "wait", "slowdown", "sync", "lost")


def render(outcomes: Sequence[CoupledOutcome]) -> str:
    """Returns a block for each machine, then a line for each run with groups."""
    lines = []
    for name in outcomes[0].machines:
        figures = outcomes[0].result.domains.get(name)
        if figures is None:
            lines += [f"{name}: down", ""]
            continue
        lines.append(f"{name}: {figures['jobs']:g} jobs, load {figures['load']:.2f}")
        lines += left_out(outcomes[0].skipped.get(name, {}))
        rows = (_cells(outcome, name) for outcome in outcomes)
        lines += table(HEAD, rows, "<>>>>", indent=2)
        lines.append("")
    for outcome in outcomes:
        result = outcome.result
        if not outcome.run.schemes:
            continue
        kept = f"{result.kept} of {result.groups} groups {_constraint(outcome)}"
        line = f"{outcome.run.name}: {kept}"
        if outcome.run.coupling.down:
            down = ", ".join(sorted(outcome.run.coupling.down))
            line = f"{outcome.run.name}: {result.groups} groups, without {down}"
        if result.stuck:
            line += f"; {result.stuck} jobs never started"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _constraint(outcome: CoupledOutcome) -> str:
    """Returns how the jobs of a group should start."""
    coupling = outcome.run.coupling
    if coupling.timing is Timing.TOGETHER:
        return "together"
    delay = format_duration(coupling.delay_ns)
    if coupling.timing is Timing.WITHIN:
        return f"within {delay} of each other"
    return f"{delay} after the first, or after its end"


def _cells(outcome: CoupledOutcome, machine: str) -> tuple[str, ...]:
    figures = outcome.result.domains[machine]
    return (
        outcome.run.name,
        duration(figures["mean_wait_s"]),
        f"{figures['mean_slowdown']:.1f}",
        duration(figures["mean_sync_s"]),
        f"{figures['lost_share']:.2%}",
    )
