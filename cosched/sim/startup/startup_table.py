"""Lays out the parts of dispatch times as text of at most 80 columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cosched.sim.startup.model import PAPERS_ORDER, Stage
from cosched.sim.startup.startup_runs import StartupOutcome
from cosched.tables import table

TITLES = {
    Stage.OBJECT: "object",
    Stage.ASSIGN: "assign",
    Stage.TABLES: "tables",
    Stage.START: "start",
    Stage.GO: "go",
}
HEAD = ("design", "nodes", "tasks", *(TITLES[part] for part in PAPERS_ORDER), "all, ms")


def render(outcomes: Sequence[StartupOutcome]) -> str:
    """Returns one line a run, in milliseconds; ends with a newline."""
    lines = table(HEAD, map(_cells, outcomes), "<>>>>>>>>")
    return "\n".join(lines) + "\n"


def _cells(outcome: StartupOutcome) -> tuple[str, ...]:
    run, parts = outcome.run, outcome.parts_s()
    times_s = [*(parts[part] for part in PAPERS_ORDER), outcome.total_s]
    return (
        run.design,
        str(run.nodes),
        str(run.tasks),
        *(f"{each * 1e3:.2f}" for each in times_s),
    )
