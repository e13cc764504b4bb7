"""Makes the request for a job: finds what its program needs, and what is missing here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cosched.cluster.client import Client
from cosched.cluster.submission_request import (
    SubmissionRequest,
    as_name,
    submission_request,
)
from cosched.core.errors import CoschedError
from cosched.core.names import member_of
from cosched.core.units import NS_PER_S, format_bytes
from cosched.jobs.choices import Choices, configured_choices
from cosched.jobs.job import Job, sendable
from cosched.jobs.outer import without_outer_job
from cosched.jobs.reporting import Reports
from cosched.jobs.serving import NO_MPI, Served, Surroundings, serve
from cosched.launch.command import Site
from cosched.launch.given.first_word import is_launcher
from cosched.launch.program import require
from cosched.linux.memory import machine_memory
from cosched.linux.processes.limits import own_limits
from cosched.rundir.directories import SYSTEM_RUN_DIR, daemons_are_up


def check_here(job: Job) -> None:
    """Raises CoschedError for a job whose program or output shows on this machine that it
    cannot be sent, whatever the domain is."""
    job.check()
    _check_output(job)
    program = _with_program_of_here(job).argv[0]
    if not os.path.exists(program):
        _check_not_in_its_directory(job)
    given = os.environ if job.environ is None else job.environ
    require(program, given, "launcher" if is_launcher(program) else "program")


def prepare_request(
    client: Client, job: Job, reports: Reports, choices: Choices | None = None
) -> SubmissionRequest:
    """Returns the request that sends a job. Arguments: as of ``Client.prepare``."""
    check_here(job)
    job = _with_program_of_here(job)
    given = os.environ if job.environ is None else job.environ
    environ, dropped = sendable(without_outer_job(given))
    if dropped:
        reports.warn(
            f"{', '.join(map(ascii, dropped))}: no process can have it, so not sent"
        )
    around = Surroundings(
        environ,
        _run_dir_of_daemons(client.run_dir),
        choices or configured_choices(given, os.geteuid()),
        os.geteuid() == 0,
        _lab_of(client.run_dir),
    )
    served = serve(job, around, reports)
    if job.minimum and served.pmi == NO_MPI:
        raise CoschedError(
            f"{served.label}: a malleable job needs an MPI that the domain serves: "
            "MPICH or Open MPI"
        )
    if served.alone:
        client.check_fits_a_node(job.total)
    if job.memory_bytes:
        check_memory(client, job.memory_bytes)
    counts = (0, 1, 1) if served.alone else (job.ranks, job.nodes, job.ppn)
    return _request(job, served, counts, environ)


def check_memory(client: Client, needed: int) -> None:
    """Raises CoschedError if this machine is the only node and has less memory. The
    memory of other nodes is not known here."""
    nodes = [node["node"] for node in client.nodes()]
    total = machine_memory().total_bytes
    if nodes == [member_of(os.uname().nodename)] and 0 < total < needed:
        raise CoschedError(
            f"infeasible: needs {format_bytes(needed)} on a node, this machine has "
            f"{format_bytes(total)}"
        )


def _request(
    job: Job, served: Served, counts: tuple[int, int, int], environ: Mapping[str, str]
) -> SubmissionRequest:
    ranks, nodes, ppn = counts
    return submission_request(
        served.argv,
        name=job.name or as_name(served.label),
        program=as_name(served.label),
        environ={**environ, **served.environ},
        cwd=job.cwd or _working_directory(),
        umask=_umask(),
        limits=own_limits(),
        ranks=ranks,
        nodes=nodes,
        ppn=ppn,
        minimum=job.minimum,
        ideal=job.ideal,
        preferred=job.preferred,
        time_ns=round(job.time_s * NS_PER_S),
        pmi=served.pmi,
        pmix_library=served.pmix_library,
        bind=job.bind and not served.alone,
        input=job.input,
        output=job.output,
        error=job.error,
        label=job.label,
        held=job.held,
        requeue=job.requeue,
        at_once=job.at_once,
        exclusive=job.exclusive,
        share=job.share,
        cpus=served.cpus or job.cpus,
        memory_bytes=job.memory_bytes,
        features=tuple(job.features),
        needs=dict(job.needs or {}),
        limited_by=tuple(job.limited_by),
        share_node=job.share_node,
        mates=_mates(job),
        array=job.array,
        slurm_variables=job.slurm_variables,
        after=",".join(map(str, job.after)),
        after_ok=",".join(map(str, job.after_ok)),
    )


def _with_program_of_here(job: Job) -> Job:
    """Returns a job whose program, if it is a path, is that of this process's directory."""
    program = job.argv[0]
    if not job.cwd or "/" not in program or program.startswith("/"):
        return job
    path = os.path.join(_working_directory(), program)
    return job._replace(argv=(path, *job.argv[1:]))


def _check_not_in_its_directory(job: Job) -> None:
    """Raises CoschedError if the job's directory has the program."""
    program = job.argv[0]
    there = os.path.normpath(os.path.join(job.cwd, program))
    if job.cwd and "/" in program and os.path.isfile(there):
        raise CoschedError(
            f"program '{program}': no such file in this directory; the job's directory"
            f" has one: give {there}"
        )


def _mates(job: Job) -> str:
    if not job.mates:
        return ""
    from cosched.cluster.coupling.mates import mates_text  # few jobs have any

    return mates_text(job.mates, job.within, job.mate_first, job.delay, job.mate_token)


def _check_output(job: Job) -> None:
    """Raises CoschedError if the job's user cannot write its output: the job would start,
    and fail at once. A folder that is not here may be on the nodes."""
    for name in filter(None, (job.output, job.error)):
        path = os.path.join(job.cwd or _working_directory(), name)
        folder = os.path.dirname(path)
        if "%" in folder or not os.path.isdir(folder):
            continue
        if os.path.isdir(path):
            problem = f"{path}: is a directory"
        elif os.path.exists(path) and not os.access(path, os.W_OK):
            problem = f"{path}: cannot be written"
        elif not os.path.exists(path) and not os.access(folder, os.W_OK | os.X_OK):
            problem = f"{folder}: cannot be written"
        else:
            continue
        raise CoschedError(
            f"{problem}, so the job has no place for its output; name another file with "
            "--output"
        )


def _run_dir_of_daemons(run_dir: Path) -> Path:
    """Returns where the ranks look for their node's scheduler daemon: in the domain's run
    directory, unless only root's daemons run."""
    if daemons_are_up(run_dir) or not daemons_are_up(SYSTEM_RUN_DIR):
        return run_dir
    return SYSTEM_RUN_DIR


def _lab_of(run_dir: Path) -> Site | None:
    """Returns the network of the lab in this run directory, if one is up."""
    if not (run_dir / "lab").exists():
        return None
    from cosched.lab.lab import Lab

    lab = Lab.load(run_dir)
    return None if lab is None else Site(network=lab.network)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        raise CoschedError("the working directory is gone; change it") from None


def _umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
