"""The figures of coupled runs as text of at most 80 columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.cluster.coupling.messages import Timing
from cosched.core.units import format_duration
from cosched.sim.coupled.logs import CoupledOutcome
from cosched.sim.queue.table import duration, left_out

HEAD = f"  {'schemes':<20}{'wait':>10}{'slowdown':>10}{'sync':>10}{'lost':>8}"


def render(outcomes: Sequence[CoupledOutcome]) -> str:
    """A block for each machine, then a line about the groups; ends with a newline."""
    lines = []
    for name in outcomes[0].machines:
        figures = outcomes[0].result.domains[name]
        lines.append(f"{name}: {figures['jobs']:g} jobs, load {figures['load']:.2f}")
        lines += left_out(outcomes[0].skipped.get(name, {}))
        lines.append(HEAD)
        lines += [_row(outcome, name) for outcome in outcomes]
        lines.append("")
    for outcome in outcomes:
        result = outcome.result
        if not outcome.run.schemes:
            continue
        line = (
            f"{outcome.name}: {result.kept} of {result.groups} groups {_as_asked(outcome)}"
        )
        if result.stuck:
            line += f"; {result.stuck} jobs never started"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _as_asked(outcome: CoupledOutcome) -> str:
    """What the groups were to do."""
    coupling = outcome.run.coupling
    if coupling.timing is Timing.TOGETHER:
        return "together"
    delay = format_duration(coupling.delay_ns)
    if coupling.timing is Timing.WITHIN:
        return f"within {delay} of each other"
    return f"{delay} after the first, or after its end"


def _row(outcome: CoupledOutcome, machine: str) -> str:
    figures = outcome.result.domains[machine]
    return (
        f"  {outcome.name:<20}{duration(figures['mean_wait_s']):>10}"
        f"{figures['mean_slowdown']:>10.1f}{duration(figures['mean_sync_s']):>10}"
        f"{figures['lost_share']:>8.2%}"
    )
