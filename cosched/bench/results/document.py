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

from cosched.bench.measure.equal_speed import at_usual_speed
from cosched.bench.measure.load import OutsideLoad
from cosched.bench.results.results import ArmSummary, Failure, Run, Spread, ratios
from cosched.bench.results.slowdown import BOUND_S
from cosched.bench.workload.file import JobSpec, Workload

FORMAT = "cosched-bench-1"


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
    return {
        f"{ratio.arm.value}/{ratio.other.value}": {
            "mean_response": ratio.mean_response,
            "makespan": ratio.makespan,
            "mean_slowdown": ratio.mean_slowdown,
            "worst_slowdown": ratio.worst_slowdown,
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
        "mean_response_s": _median(summary.mean_response_s),
        "mean_wait_s": _median(summary.mean_wait_s),
        "makespan_s": _median(summary.makespan_s),
        "mean_slowdown": _median(summary.mean_slowdown),
        "worst_slowdown": _median(summary.worst_slowdown),
        "spread": {
            "mean_response_s": _range(summary.mean_response_s),
            "mean_wait_s": _range(summary.mean_wait_s),
            "makespan_s": _range(summary.makespan_s),
            "mean_slowdown": _range(summary.mean_slowdown),
            "worst_slowdown": _range(summary.worst_slowdown),
        },
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
        "jobs": [
            {
                "name": job.name,
                "submitted_s": job.submitted_s,
                "wait_s": job.wait_s,
                "response_s": job.response_s,
                "cpu_s": job.cpu_s,
            }
            for job in run.jobs
        ],
        "outside_load": _load(run.load),
        "activity": None if run.activity is None else asdict(run.activity),
        "probe_us": run.probe_us,
        "discarded": run.disturbed,
        "counted": run in summary.counted,
        "failure": _failure(run.failure),
    }


def _load(load: OutsideLoad | None) -> dict[str, float] | None:
    if load is None:
        return None
    return {
        "share": load.share,
        "outside_s": load.outside_s,
        "busy_s": load.busy_s,
        "jobs_s": load.jobs_s,
        "overhead_s": load.overhead_s,
        "capacity_s": load.capacity_s,
    }


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {"line": failure.line, "output": list(failure.output)}


def _median(spread: Spread | None) -> float | None:
    return None if spread is None else spread.median


def _range(spread: Spread | None) -> list[float] | None:
    return None if spread is None else [spread.low, spread.high]
