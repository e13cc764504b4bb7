"""Decides how the ranks of a job are started in a domain, and what they find around them.

The agents serve PMI-1 to MPICH and PMIx to Open MPI. For another MPI its own mpiexec runs
as the job's only task. A program without MPI, such as a script, is started as it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cosched.cluster.pmi.pmix_installation import find_installation
from cosched.cluster.submission_request import MOST
from cosched.core.decoding import is_whole
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.jobs.choices import Choices
from cosched.jobs.job import Job
from cosched.jobs.rank_environment import Wanted, rank_environment
from cosched.jobs.reporting import Reports
from cosched.launch.command import TRANSPORT_VARIABLES, Site
from cosched.launch.environment import job_label
from cosched.launch.family import Family, Mpi
from cosched.launch.given.first_word import is_launcher
from cosched.launch.mpi import SearchPath
from cosched.launch.program import inspect, require
from cosched.launch.resolved_job import Request, resolve
from cosched.launch.resolved_job import ResolvedJob as Resolved

#: For ``Job.mpi``: the program has no MPI.
NO_MPI = "none"
#: The first MPICH whose ranks take values of any length.
_LONG_VALUES_SINCE = 5


class Surroundings(NamedTuple):
    """The surroundings of a job."""

    environ: Mapping[str, str]  #: the user's variables, without those of an outer job
    run_dir: Path  #: the scheduler daemons' directory
    choices: Choices  #: the user's choices for coscheduling
    root: bool  #: whether root submits the job
    lab: Site | None = None  #: the nodes, if they are those of a lab; otherwise None


class Served(NamedTuple):
    """How a job is started."""

    argv: Sequence[str]  #: the words that each task executes
    label: str  #: the program's name for users
    #: Variables to add to the user's.
    environ: Mapping[str, str] = {}
    pmi: str = "none"  #: how the agents serve the ranks, one of ``PMIS``
    pmix_library: str = ""  #: the path of its MPI's libpmix; empty: none
    alone: bool = False  #: one task starts the ranks itself, on one node
    cpus: int = 0  #: how many CPUs it has there; 0: one for each task


class Pmi(NamedTuple):
    """How agents serve an MPI."""

    name: str  #: one of ``PMIS``
    pmix_library: str = ""  #: the path of the MPI's libpmix; empty: none
    environ: Mapping[str, str] = {}  #: variables of its tasks


def serve(job: Job, around: Surroundings, reports: Reports) -> Served:
    """Returns how the job is started. CoschedError names what is missing."""
    argv = tuple(job.argv)
    if is_launcher(argv[0]):
        return _own_launcher(job, around, reports)
    path = require(argv[0], around.environ)
    program = inspect(argv, around.environ, path)
    if job.mpi == NO_MPI:
        return Served(argv, program.label)
    guessed = program.family is None and job.mpi is None
    if guessed and job.total == 1 and not job.minimum:
        # A script that starts jobs of its own needs an environment without a job.
        return Served(argv, program.label)
    request = Request(argv, ranks=job.total, mpi=job.mpi, root=around.root)
    try:
        found = _resolve(request, around)
    except CoschedError:
        if not guessed:
            raise
        return Served(argv, program.label)
    assert found.mpi is not None
    pmi = pmi_of(found.mpi, program.library, around.environ)
    if pmi is None:
        return _by_its_mpiexec(job, found, around, reports)
    environ = {
        **pmi.environ,
        **found.own_environment(),
        **_lab_environment(found.mpi, around),
        **_rank_environment(job, found, around, reports),
    }
    return Served(argv, found.label, environ, pmi.name, pmi.pmix_library)


def _own_launcher(job: Job, around: Surroundings, reports: Reports) -> Served:
    """The user's own launcher runs as one task."""
    if job.total > 1 or job.mpi not in (None, NO_MPI):
        raise CoschedError(
            f"{job.argv[0]} starts ranks itself: leave it out, or leave out --ranks, "
            "--nodes, --ppn and --mpi"
        )
    found = _resolve(Request(tuple(job.argv), root=around.root), around)
    for warning in found.warnings:
        reports.warn(warning)
    # It may start as many ranks as it likes, and bind them to any CPUs.
    return _one_task(job, found, around, reports)._replace(cpus=MOST)


def _by_its_mpiexec(
    job: Job, found: Resolved, around: Surroundings, reports: Reports
) -> Served:
    assert found.mpi is not None
    what = f"{found.mpi.title} {found.mpi.version}"
    if job.nodes > 1:
        raise CoschedError(
            f"the domain cannot start the ranks of {what} on several nodes; "
            "ask for one node, or use cosched-run or its mpiexec with hosts"
        )
    reports.warn(
        f"the domain cannot serve {what}: {found.mpi.mpiexec} starts its ranks on one node"
    )
    return _one_task(job, found, around, reports)._replace(cpus=job.total)


def _one_task(job: Job, found: Resolved, around: Surroundings, reports: Reports) -> Served:
    command = found.command(_rank_environment(job, found, around, reports))
    return Served(command.argv, found.label, command.environ, alone=True)


def _resolve(request: Request, around: Surroundings) -> Resolved:
    places = SearchPath(Path(sys.executable).parent, around.environ)
    return resolve(request, Site(), places)


def _rank_environment(
    job: Job, found: Resolved, around: Surroundings, reports: Reports
) -> dict[str, str]:
    if not job.shim:
        return {}
    from cosched.jobs.expected import Lengths

    wanted = Wanted(
        job_label(job.name or found.label),
        around.run_dir,
        job.memory_bytes,
        Lengths(reports.warn).expectation(found, None),
        time.time_ns(),
        by_agents=True,
    )
    return rank_environment(found, around.choices, wanted, around.environ, reports)


def pmi_of(mpi: Mpi, library: Path | None, environ: Mapping[str, str]) -> Pmi | None:
    """Returns what the agents serve to this MPI; None if they cannot serve it. library: the
    program's, if it is known."""
    if mpi.intel:
        return None
    if mpi.family is Family.MPICH:
        return Pmi("pmi1-long" if _takes_long_values(mpi, library) else "pmi1")
    found = find_installation(mpi.mpiexec, environ)
    return Pmi("pmix", str(found.libpmix), found.variables) if found is not None else None


def _takes_long_values(mpi: Mpi, library: Path | None) -> bool:
    """Whether the program's own library is MPICH 5 or newer, so far as the launcher shows:
    the library is part of the same installation."""
    major = mpi.version.partition(".")[0]
    if library is None or not is_whole(major, _LONG_VALUES_SINCE):
        return False
    return library.resolve().is_relative_to(mpi.mpiexec.resolve().parent.parent)


def _lab_environment(mpi: Mpi, around: Surroundings) -> dict[str, str]:
    """Returns what keeps the messages of a lab's nodes on their network: they share their
    machine's memory."""
    if around.lab is None or any(
        name in around.environ for name in TRANSPORT_VARIABLES[mpi.family]
    ):
        return {}
    if mpi.family is Family.MPICH:
        return {"UCX_TLS": "tcp,self"}
    return {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "tcp,self",
        "OMPI_MCA_btl_tcp_if_include": around.lab.network,
    }
