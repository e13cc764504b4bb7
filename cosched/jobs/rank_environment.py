"""Makes the environment in which a job's ranks take part in coscheduling."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.expectation import Prediction
from cosched.core.named_tuples import NamedTuple
from cosched.jobs.choices import Choices
from cosched.jobs.reporting import Reports
from cosched.launch.environment import (
    Part,
    carrier_for,
    submission_ns,
    task_environment,
)
from cosched.launch.resolved_job import ResolvedJob


class Wanted(NamedTuple):
    """How a job takes part in coscheduling."""

    name: str  #: the job's name on its nodes
    #: The daemons' run directory; None: each rank looks for the daemons of its node.
    run_dir: Path | None
    memory_bytes: int  #: the job's memory on each node; 0: unknown
    expectation: Prediction  #: how long like jobs were scheduled
    submitted_ns: int  #: when the user asked for it, ns since 1970
    registers_in_init: bool = False  #: the ranks register in MPI_Init, not when they start
    by_agents: bool = False  #: the agents of a domain start the ranks


def rank_environment(
    job: ResolvedJob,
    choices: Choices,
    wanted: Wanted | None,
    environ: Mapping[str, str],
    reports: Reports,
    *,
    verbose: bool = False,
) -> dict[str, str]:
    """Returns the variables for the ranks of a job; builds the shim if it is not there.

    wanted: None if the ranks are not coscheduled.
    """
    shim = _shim(job, environ, reports)
    carrier = carrier_for(
        choices.carrier,
        interposer=shim is not None,
        wrapped=job.wrapped,
    )
    choices.check_carrier(carrier)
    part = None
    if wanted is not None:
        # A domain runs jobs on nodes without daemons, too. Its agents start all ranks
        # alike, and serve no names to Open MPI.
        usual, shimmed = ("none", "surely") if wanted.by_agents else ("", "")
        part = Part(
            wanted.name,
            wanted.run_dir,
            carrier,
            wanted.memory_bytes,
            submission_ns(environ, wanted.submitted_ns),
            wanted.expectation,
            wanted.registers_in_init,
            "all" if choices.needs_all else usual,
            shimmed if job.surely_shimmed else "perhaps",
        )
    return task_environment(
        environ,
        part=part,
        wait=choices.policy,
        shim=shim,
        verbose=verbose,
    )


def _shim(job: ResolvedJob, environ: Mapping[str, str], reports: Reports) -> Path | None:
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
