"""Lays out the figures of simulated nodes as text of at most 80 columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cosched.sim.nodes.node_runs import NodesOutcome
from cosched.tables import table

HEAD = ("", "response", "makespan", "efficiency", "switches", "pulled")


def render(outcomes: Sequence[NodesOutcome]) -> str:
    """Returns one line a run; ends with a newline.

    ``switches`` counts those of one node; ``pulled`` is the share that messages caused.
    """
    return "\n".join(table(HEAD, map(_cells, outcomes), "<>>>>>")) + "\n"


def _cells(outcome: NodesOutcome) -> tuple[str, ...]:
    counters = outcome.counters
    pulled = counters.get("sch_granted", 0)
    switches = pulled + counters.get("csw_switched", 0) + counters.get("turn_given", 0)
    share = f"{pulled / switches:.0%}" if switches else "-"
    return (
        outcome.run.name,
        f"{outcome.mean_response_s:.2f} s",
        f"{outcome.makespan_s:.2f} s",
        f"{outcome.efficiency:.1%}",
        f"{switches / outcome.run.cluster.nodes:.1f}" if counters else "",
        share if counters else "",
    )
