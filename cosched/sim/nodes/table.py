"""The figures of simulated nodes as text of at most 80 columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cosched.sim.nodes.runs import NodesOutcome

HEAD = (
    f"{'':<26}{'response':>10}{'makespan':>10}{'efficiency':>12}{'switches':>9}"
    f"{'pulled':>8}"
)


def render(outcomes: Sequence[NodesOutcome]) -> str:
    """A line a run; switches are a node's, pulled the share that messages caused."""
    return "\n".join([HEAD, *(_line(outcome) for outcome in outcomes)]) + "\n"


def _line(outcome: NodesOutcome) -> str:
    counters = outcome.counters
    pulled = counters.get("sch_granted", 0)
    switches = pulled + counters.get("csw_switched", 0) + counters.get("turn_given", 0)
    line = (
        f"{outcome.name:<26}{outcome.mean_response_s:>8.2f} s{outcome.makespan_s:>8.2f} s"
        f"{outcome.efficiency:>12.1%}"
    )
    if not counters:
        return line
    share = f"{pulled / switches:.0%}" if switches else "-"
    return f"{line}{switches / outcome.run.cluster.nodes:>9.1f}{share:>8}"
