"""Puts the figures and curves of simulated queues into a report. Pure.

``sim.queue.report_curves`` has computed the curves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
#: Figures of a run, and their headings in the table.
FIGURES = {
    "mean_wait_s": "mean wait",
    "median_wait_s": "median wait",
    "p95_wait_s": "95% wait at most",
    "mean_bounded_slowdown": "bounded slowdown",
    "utilisation": "used",
}


def has_courses(content: object) -> bool:
    """Returns whether this is a result of cosched sim queue or share that can be drawn."""
    runs = content.get("runs") if isinstance(content, Mapping) else None
    return (
        isinstance(runs, Sequence)
        and bool(runs)
        and all(isinstance(run, Mapping) and "course" in run for run in runs)
    )


def simulation_data(content: Mapping[str, Any]) -> list[Json]:
    """Returns a section for each log of a result, in the order of the runs."""
    logs: dict[str, list[Mapping[str, Any]]] = {}
    for run in content["runs"]:
        logs.setdefault(str(run["trace"]), []).append(run)
    return [
        {
            "title": trace.rpartition("/")[2],
            "about": _about(runs[0]),
            "facts": _facts(content),
            "headings": list(FIGURES.values()),
            "runs": [_run(run) for run in runs],
        }
        for trace, runs in logs.items()
    ]


def _about(run: Mapping[str, Any]) -> str:
    figures = run["figures"]
    return (
        f"{figures['jobs']:,.0f} jobs on {run['machine']:,} nodes, load "
        f"{figures['load']:.2f}"
    )


def _facts(content: Mapping[str, Any]) -> list[list[str]]:
    shown = {"command": content.get("command"), "cosched": content.get("version")}
    return [[name, str(value)] for name, value in shown.items() if value]


def _run(run: Mapping[str, Any]) -> Json:
    return {
        "name": _name(run),
        "figures": [run["figures"][name] for name in FIGURES],
        **{name: run["course"][name] for name in ("step_s", "used", "waits_s")},
    }


def _name(run: Mapping[str, Any]) -> str:
    if "policy" in run:
        return f"{run['policy']}, run times by {run['estimates']}"
    return f"{run['queue']}, {run['dom']} jobs a node"
