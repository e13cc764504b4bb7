"""Measures the cases of a figure of the central part, each in processes of its own."""

from __future__ import annotations

import json
import statistics
import sys
from itertools import product
from typing import Any

from benchmarks.commands import output_of
from benchmarks.experiments.startup.documents import Point
from benchmarks.experiments.startup.plans import cases_of
from benchmarks.progress_lines import steps_of

#: Runs of a case whose memory is measured: equal runs allocate the same.
MEMORY_RUNS = 2


def measure(figure: str, repeat: int) -> tuple[list[Point], list[Any]]:
    """Returns the points of a figure, and all that was measured.

    CPU times of the points are at one speed of the machine, the median of the probes. The
    runs are interleaved, so that a change of the machine's speed meets all cases.
    """
    memory = figure.startswith("fig7")
    what, key = ("memory", "memory_bytes") if memory else ("cpu", "probes")
    if figure == "fig6":
        what = "workers"
    cases = cases_of(figure)
    points = [Point(design, _x(figure, nodes, tasks)) for design, nodes, tasks in cases]
    runs = []
    times = MEMORY_RUNS if memory else repeat
    rounds = list(product(range(1, times + 1), zip(cases, points, strict=True)))
    for run, ((design, nodes, tasks), point) in steps_of(rounds, figure):
        found = in_new_process(design, nodes, tasks, what)
        point.values[str(run)] = found[key]
        runs.append({"design": design, "nodes": nodes, "tasks": tasks, **found})
    if not memory:
        speed_s = statistics.median(run["probe_s"] for run in runs)
        for point in points:
            point.values = {run: value * speed_s for run, value in point.values.items()}
    return points, runs


def _x(figure: str, nodes: int, tasks: int) -> int:
    return nodes if figure == "fig8a" else tasks


def in_new_process(design: str, nodes: int, tasks: int, what: str) -> dict[str, Any]:
    """Runs ``central`` and returns its figures."""
    words = [design, str(nodes), str(tasks), what]
    program = (sys.executable, "-m", "benchmarks.experiments.startup.central_cost")
    found: dict[str, Any] = json.loads(output_of([*program, *words], " ".join(words)))
    return found
