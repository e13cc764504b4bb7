"""Writes the result of a bench as one JSON document. Pure.

``arms.NAME.mean_response_s``, ``arms.NAME.makespan_s`` and ``arms.NAME.jobs[]`` hold the
medians over the counted runs. They are null or empty if no run of the arm ended well.
``arms.NAME.repeats[]`` holds every run. ``ratios`` compares the medians. ``level_ratios``
compares them at equal speed of the machine; it is null if the speed was equal or unknown.
``slowdown`` names the bound and the lengths to which all slowdowns refer. Without the arm
batch the lengths are unknown; it and all slowdowns are then null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from msgspec import to_builtins

from cosched.bench.measure.equal_speed import at_usual_speed
from cosched.bench.measure.load import OutsideLoad
from cosched.bench.results.results import Run
from cosched.bench.results.slowdown import BOUND_S
from cosched.bench.results.summary import ArmSummary, Spread, ratios
from cosched.bench.workload.file import JobSpec, Workload

FORMAT = "cosched-bench-1"
#: The figures of an arm, and of a job in a run.
FIGURES = (
    *("mean_response_s", "mean_wait_s", "makespan_s"),
    *("mean_slowdown", "worst_slowdown"),
)
OF_JOB = ("name", "submitted_s", "wait_s", "response_s", "cpu_s", "node_s")


def document(
    workload: Workload,
    summaries: Sequence[ArmSummary],
    context: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns everything about the bench, ready for ``json.dumps``.

    ``context``: settings, MPI, kernel, command line and so on; copied into the document.
    """
    level = at_usual_speed(summaries)
    return {
        "format": FORMAT,
        "workload": {
            "title": workload.title,
            "description": workload.description,
            "arrivals": arrivals_document(workload),
            "jobs": [spec_document(spec) for spec in workload.jobs],
        },
        **context,
        "arms": {summary.arm.value: _arm(summary) for summary in summaries},
        "slowdown": _slowdown(summaries),
        "ratios": _ratios(summaries),
        "level_ratios": _ratios(level) if level else None,
    }


def _slowdown(summaries: Sequence[ArmSummary]) -> dict[str, Any] | None:
    lengths_s = next((s.lengths_s for s in summaries if s.lengths_s), None)
    if lengths_s is None:
        return None
    return {"bound_s": BOUND_S, "lengths_s": dict(lengths_s)}


def _ratios(summaries: Sequence[ArmSummary]) -> dict[str, dict[str, float | None]]:
    names = ("mean_response", "makespan", "mean_slowdown", "worst_slowdown")
    return {
        f"{ratio.arm.value}/{ratio.other.value}": {
            name: getattr(ratio, name) for name in names
        }
        for ratio in ratios(summaries)
    }


def arrivals_document(workload: Workload) -> dict[str, Any] | None:
    """Returns the ``[arrivals]`` table with all its values; None without one."""
    return None if workload.arrivals is None else asdict(workload.arrivals)


def spec_document(spec: JobSpec) -> dict[str, Any]:
    """Returns one ``[[job]]`` table with all its values."""
    runs: dict[str, Any] = {"command": list(spec.command)}
    if spec.source is not None:
        runs = {"source": str(spec.source), "args": list(spec.args)}
    return {
        "name": spec.name,
        **runs,
        "ranks": spec.ranks,
        "count": spec.count,
        "start_s": spec.start_s,
        "ppn": spec.ppn,
        "first": spec.first,
        "env": dict(spec.env),
        "cwd": str(spec.cwd) if spec.cwd else None,
        "timeout_s": spec.timeout_s,
    }


def _arm(summary: ArmSummary) -> dict[str, Any]:
    return {
        "calculated": summary.arm.calculated,
        **{name: _median(getattr(summary, name)) for name in FIGURES},
        "spread": {name: _range(getattr(summary, name)) for name in FIGURES},
        "jobs": [
            {
                "name": job.name,
                "response_s": job.response_s.median,
                "cpu_s": job.cpu_s.median,
                "spread": {
                    "response_s": _range(job.response_s),
                    "cpu_s": _range(job.cpu_s),
                },
            }
            for job in summary.jobs
        ],
        "repeats": [_run(run, summary) for run in summary.runs],
    }


def _run(run: Run, summary: ArmSummary) -> dict[str, Any]:
    ended = run.failure is None
    known = ended and summary.lengths_s
    slowdown = run.slowdown(summary.lengths_s) if known else None
    return {
        "repeat": run.repeat,
        "mean_response_s": run.mean_response_s if ended else None,
        "makespan_s": run.makespan_s if ended else None,
        "mean_slowdown": slowdown.mean if slowdown else None,
        "worst_slowdown": slowdown.worst if slowdown else None,
        "jobs": [{name: getattr(job, name) for name in OF_JOB} for job in run.jobs],
        "outside_load": _load(run.load),
        "activity": to_builtins(run.activity),
        "probe_us": run.probe_us,
        "discarded": run.disturbed,
        "counted": run in summary.counted,
        "failure": to_builtins(run.failure),
    }


def _load(load: OutsideLoad | None) -> dict[str, float] | None:
    if load is None:
        return None
    return {"share": load.share, "outside_s": load.outside_s, **asdict(load)}


def _median(spread: Spread | None) -> float | None:
    return None if spread is None else spread.median


def _range(spread: Spread | None) -> list[float] | None:
    return None if spread is None else [spread.low, spread.high]
