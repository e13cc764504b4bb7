"""Submits jobs to a domain and watches them: the ``Client`` for programs.

from cosched import Client, Job

with Client.connect() as client:
    number = client.submit(Job(["./app"], ranks=4))
    print(client.wait(number)["state"])
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cosched.cluster import client as domain
from cosched.cluster.client import USUAL_PATIENCE, NoDomain, Patience
from cosched.cluster.paths import DomainPaths
from cosched.cluster.submission import JOB_VARIABLE, Submission, as_name
from cosched.cluster.up.missing_member import lacks_a_member
from cosched.core.errors import CoschedError
from cosched.core.names import member_of
from cosched.core.units import NS_PER_S, format_bytes
from cosched.jobs.choices import Choices, configured_choices
from cosched.jobs.job import Job, sendable
from cosched.jobs.outer import without_outer_job
from cosched.jobs.rank_environment import Reports
from cosched.launch.command import Site
from cosched.linux.memory import machine_memory
from cosched.linux.processes.limits import own_limits
from cosched.rundir.directories import (
    SYSTEM_RUN_DIR,
    daemons_are_up,
    domain_dir_to_ask,
)

if TYPE_CHECKING:
    from cosched.jobs.calls.job_executor import JobExecutor
    from cosched.jobs.serving import Served

__all__ = ["Client", "NoDomain", "Patience"]

SomeClient = TypeVar("SomeClient", bound="Client")
_WARNINGS = Reports(warnings.warn, lambda line: None)


class Client(domain.Client):
    """A connection to a domain."""

    @classmethod
    def connect(
        cls: type[SomeClient],
        run_dir: Path | str | None = None,
        node: str | None = None,
        patience: Patience = USUAL_PATIENCE,
    ) -> SomeClient:
        """Connects to the domain of a run directory, by default to the one that serves this
        user. If none is up, a private one of this machine is started.

        node: this machine's name in the domain; none is started then. Raises NoDomain if
        the domain there is not a private one and is down, and within a job of a domain.
        """
        at = _domain_dir(run_dir)
        try:
            client = cls.connect_to_running(at, node, patience)
        except NoDomain:
            if node or not _may_start():
                raise
        else:
            if not _may_start() or not lacks_a_member(DomainPaths(at)):
                return client
            client.close()
        from cosched.cluster.up.private import start_private

        start_private(at, member_of(os.uname().nodename))
        return cls.connect_to_running(at, node, patience)

    @classmethod
    def connect_to_running(
        cls: type[SomeClient],
        run_dir: Path | str | None = None,
        node: str | None = None,
        patience: Patience = USUAL_PATIENCE,
    ) -> SomeClient:
        """Does the same, but starts nothing. Raises NoDomain if no domain answers."""
        return super().connect(
            _domain_dir(run_dir), node or os.environ.get("COSCHED_NODE"), patience
        )

    def submit(self, job: Job | Submission, reports: Reports = _WARNINGS) -> int:
        """Submits a job; returns its number.

        Raises CoschedError if the domain can never run it, or if something is missing here.
        """
        return super().submit(self.prepare(job, reports) if isinstance(job, Job) else job)

    def map(
        self,
        work: Callable[..., Any] | Sequence[str],
        items: Iterable[Any],
        *,
        ranks: int | None = None,
        chunksize: int = 1,
        timeout: float | None = None,
        folder: Path | str | None = None,
        **job: Any,
    ) -> Iterator[Any]:
        """Runs a function or a command for each item as a job, and returns an iterator over
        the results in the order of the items. All jobs are sent at once.

        work: a function of an item; with ``ranks``, of the communicator and an item. Or the
        words of a command, in which ``{}`` stands for the item; without it the item is the
        last word. The result is then a ``subprocess.CompletedProcess``. The other arguments
        are those of ``cosched.Executor`` and its ``map``.
        """
        from cosched.jobs.calls.job_executor import JobExecutor  # most programs need none

        def connect() -> Client:
            return type(self).connect(self.run_dir, self.node)

        executor = JobExecutor(connect, ranks, folder=folder, **job)
        results = executor.map(work, items, timeout=timeout, chunksize=chunksize)
        return _closing(results, executor)

    def prepare(
        self, job: Job, reports: Reports = _WARNINGS, choices: Choices | None = None
    ) -> Submission:
        """Returns a job as it is sent; builds the shim for its MPI if it is not there. Sent
        twice it is still one job. reports: by default Python's warnings. choices: by
        default those of the user's configuration."""
        # A third of the time to start.
        from cosched.jobs.serving import NO_MPI, Surroundings, serve

        job.check()
        _check_output(job)
        job = _with_program_of_here(job)
        given = os.environ if job.environ is None else job.environ
        environ, dropped = sendable(without_outer_job(given))
        if dropped:
            reports.warn(
                f"{', '.join(map(ascii, dropped))}: no process can have it, so not sent"
            )
        around = Surroundings(
            environ,
            _run_dir_of_daemons(self.run_dir),
            choices or configured_choices(given, os.geteuid()),
            os.geteuid() == 0,
            _lab_of(self.run_dir),
        )
        served = serve(job, around, reports)
        if job.minimum and served.pmi == NO_MPI:
            raise CoschedError(
                f"{served.label}: a malleable job needs an MPI that the domain serves: "
                "MPICH or Open MPI"
            )
        if served.alone:
            self.check_fits_a_node(job.total)
        if job.memory_bytes:
            self._check_memory(job.memory_bytes)
        counts = (0, 1, 1) if served.alone else (job.ranks, job.nodes, job.ppn)
        return _make_submission(job, served, counts, environ)

    def _check_memory(self, needed: int) -> None:
        """Raises CoschedError if this machine is the only node and has less memory. What
        other nodes have is not known here."""
        nodes = [node["node"] for node in self.nodes()]
        total = machine_memory().total_bytes
        if nodes == [member_of(os.uname().nodename)] and 0 < total < needed:
            raise CoschedError(
                f"infeasible: needs {format_bytes(needed)} on a node, this machine has "
                f"{format_bytes(total)}"
            )

    def check_fits_a_node(self, ranks: int) -> None:
        """Raises CoschedError if no node takes this number of tasks of a job."""
        most = max((node["tasks_most"] for node in self.nodes()), default=0)
        if ranks > most > 0:
            raise CoschedError(
                f"infeasible: needs {ranks} tasks on a node, a node takes {most}"
            )


def _closing(results: Iterator[Any], executor: JobExecutor) -> Iterator[Any]:
    """Yields the results; then the executor takes no more work."""
    try:
        yield from results
    finally:
        executor.shutdown(wait=False)


def _make_submission(
    job: Job, served: Served, counts: tuple[int, int, int], environ: Mapping[str, str]
) -> Submission:
    ranks, nodes, ppn = counts
    return domain.make_submission(
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
    return replace(job, argv=(path, *job.argv[1:]))


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


def _domain_dir(run_dir: Path | str | None) -> Path:
    if run_dir is None:
        return domain_dir_to_ask(os.environ, os.geteuid())
    return Path(run_dir).absolute()


def _may_start() -> bool:
    """Returns whether this process may start members of a domain. Members that a job
    starts would end with it."""
    return JOB_VARIABLE not in os.environ and not os.environ.get("COSCHED_NODE")


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
    except OSError as error:
        raise CoschedError(f"the working directory: {error.strerror}") from None


def _umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
