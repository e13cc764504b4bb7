"""Turns a run into plain data and back, for the run store. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cosched.bench.measure.load import OutsideLoad
from cosched.bench.results.results import Activity, Failure, JobResult, Run
from cosched.bench.run.arms import Arm


def encode_run(run: Run) -> dict[str, Any]:
    """Returns the run, ready for ``json.dumps``."""
    return {**asdict(run), "arm": run.arm.value}


def decode_run(found: Mapping[str, Any]) -> Run:
    """Reverses ``encode_run``; KeyError, TypeError or ValueError for other data."""
    failure = found["failure"]
    probe_us = found.get("probe_us")  # older files have none
    return Run(
        arm=Arm(found["arm"]),
        repeat=int(found["repeat"]),
        jobs=tuple(JobResult(**job) for job in found["jobs"]),
        load=None if found["load"] is None else OutsideLoad(**found["load"]),
        activity=None if found["activity"] is None else Activity(**found["activity"]),
        failure=None
        if failure is None
        else Failure(failure["line"], tuple(failure["output"])),
        probe_us=None if probe_us is None else float(probe_us),
    )
