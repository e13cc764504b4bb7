"""Describes a job of cosched-run: the plan of --dry-run and the headline of --verbose."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from cosched.launch.resolved_job import ResolvedJob


def plan_text(job: ResolvedJob, tasks: Mapping[str, str]) -> str:
    """Returns the command and the environment in two lines."""
    words = [f"{name}={shlex.quote(text)}" for name, text in _environment(job, tasks)]
    command = shlex.join(job.command(tasks).argv)
    return f"command: {command}\nenvironment: {' '.join(words)}"


def plan_json(job: ResolvedJob, name: str, tasks: Mapping[str, str]) -> str:
    """Returns one JSON object on one line."""
    mpi: dict[str, Any] | None = None
    if job.mpi is not None:
        mpi = {
            "family": job.mpi.family.value,
            "engine": job.mpi.engine.value,
            "version": job.mpi.version,
            "mpiexec": str(job.mpi.mpiexec),
        }
    plan = {
        "job": name,
        "command": list(job.command(tasks).argv),
        "environment": dict(_environment(job, tasks)),
        "hosts": list(job.site.names),
        "mpi": mpi,
        "mpicc": None if job.mpicc is None else str(job.mpicc),
    }
    return json.dumps(plan)


def _environment(job: ResolvedJob, tasks: Mapping[str, str]) -> list[tuple[str, str]]:
    return list({**job.own_environment(), **tasks}.items())


def headline(job: ResolvedJob, name: str, tasks: Mapping[str, str]) -> str:
    """Returns one line: the launcher, the carrier and the wait policy."""
    how = job.launcher
    if job.mpi is not None:
        how += f" ({job.mpi.title} {job.mpi.version})"
    carrier = tasks.get("COSCHED_STATUS")
    what = f"status {carrier}" if "COSCHED_JOB" in tasks else "not coscheduled"
    if tasks.get("COSCHED_WAIT", "spin") != "spin":
        what += f"; waits: {tasks['COSCHED_WAIT'].partition(':')[0]}"
    return f"job {name}: {how}; {what}"
