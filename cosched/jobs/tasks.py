"""Makes the environment in which a job's ranks take part in coscheduling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.jobs.choices import Choices
from cosched.launch.environment import Part, carrier_for, task_environment
from cosched.launch.job import Job


@dataclass(frozen=True, slots=True)
class Reports:
    """Takes what the user should read: ``warn`` takes warnings, ``note`` progress."""

    warn: Callable[[str], None]
    note: Callable[[str], None]


def rank_environment(
    job: Job,
    choices: Choices,
    part: Part | None,
    environ: Mapping[str, str],
    reports: Reports,
    *,
    verbose: bool = False,
) -> dict[str, str]:
    """Returns the variables for the ranks of a job; builds the shim if it is not there.

    part: the job's part, whose carrier is chosen here; None: the ranks are not coscheduled.
    """
    shim = _shim(job, environ, reports)
    carrier = carrier_for(
        choices.carrier,
        interposer=shim is not None,
        wrapped=job.wrapped,
    )
    choices.check_carrier(carrier)
    if part is not None:
        shimmed = part.shimmed if job.surely_shimmed else "perhaps"
        part = replace(part, status=carrier, shimmed=shimmed)
    return task_environment(
        environ,
        part=part,
        wait=choices.policy,
        shim=shim,
        verbose=verbose,
    )


def _shim(job: Job, environ: Mapping[str, str], reports: Reports) -> Path | None:
    """Returns the library to preload; None, with a warning, if there is none."""
    from cosched.launch.shim import make_shim, plan_build

    try:
        build = plan_build(job.require_mpicc(), environ, standard_abi=job.standard_abi)
        if build.remark:
            reports.warn(build.remark)
        if not build.is_built:
            reports.note("building the shim for this MPI, once")
        return make_shim(build)
    except CoschedError as error:
        reports.warn(f"{error}; only programs that import mpi_shim are coscheduled")
        return None
