"""``cosched-run``: starts an MPI job that takes part in coscheduling."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from cosched.cli.options import (
    complete_paths,
    json_option,
    run_cli,
    run_dir_option_with,
)
from cosched.cli.run.choices import Choices, choose
from cosched.cli.run.site import (
    check_hosts,
    find_site,
    lease_here,
    local_nodes,
    this_node,
)
from cosched.core.errors import CoschedError
from cosched.core.units import parse_bytes
from cosched.launch.environment import (
    Part,
    carrier_for,
    default_job_name,
    submission_ns,
    task_environment,
)
from cosched.launch.job import Job, Request, resolve
from cosched.launch.mpi import Places
from cosched.shm.paths import check_job_name
from cosched.shm.userdirs import run_dir_to_ask

_NOISE_BYTES = 4


def _hosts(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    """``a,b,c``, each named once."""
    hosts = tuple(value.split(",")) if value is not None else ()
    if not all(hosts):
        raise click.BadParameter(f"'{value}': name hosts as a,b,c.")
    if len(set(hosts)) < len(hosts):
        raise click.BadParameter(f"'{value}': a host is named twice; use --ppn.")
    return hosts


@click.command(
    "cosched-run",
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 80,
        "allow_interspersed_args": False,
    },
)
@click.option(
    "-n",
    "-np",
    "--ranks",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many ranks.  [default: 1, or --ppn on each host]",
)
@click.option("--hosts", callback=_hosts, metavar="A,B", help="Where they run.")
@click.option(
    "--ppn", type=click.IntRange(min=1), metavar="K", help="At most K ranks on a host."
)
@click.option("--job", metavar="NAME", help="[default: the program's name and a suffix]")
@click.option(
    "--mpi",
    metavar="MPI",
    help="An mpiexec, a prefix, mpich or openmpi.  [default: what the program uses]",
)
@click.option(
    "--status",
    type=click.Choice(["auto", "shadow", "prefix", "none"]),
    help="How the sender's status travels: shadow, beside the messages; prefix, one byte"
    " in front of each; none. auto: shadow, but none where a rank may lack the shim."
    "  [default: the configuration's, auto]",
)
@click.option(
    "--wait",
    metavar="HOW",
    help="How ranks wait while they may run: spin (as the MPI does), yield, block[:TIME],"
    " which spins for TIME (20us) and then sleeps, or auto[:TIME], which blocks where the"
    " CPUs are shared now.  [default: the configuration's, spin]",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="What the job needs on each of its nodes, such as 8G: it begins once that is"
    " free, rather than page.",
)
@click.option(
    "--waits-only", is_flag=True, help="Only wait as --wait says; no coscheduling."
)
@click.option("--no-shim", is_flag=True, help="Start the job the same way, uncoscheduled.")
@run_dir_option_with(
    lambda: run_dir_to_ask(os.environ, os.geteuid(), this_node()),
    "/tmp/cosched-UID where daemons of yours are up, else /run/cosched",
)
@click.option(
    "--account",
    is_flag=True,
    help="Say on stderr at the end what the job has had (-v does, too).",
)
@click.option("-v", "--verbose", is_flag=True, help="Say on stderr what is done.")
@click.option("--dry-run", is_flag=True, help="Print command and environment only.")
@json_option
@click.version_option(package_name="cosched")
@click.argument(
    "argv",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="PROGRAM [ARGS]...",
    shell_complete=complete_paths,
)
@click.pass_context
def command(
    ctx: click.Context,
    argv: tuple[str, ...],
    ranks: int | None,
    hosts: tuple[str, ...],
    ppn: int | None,
    job: str | None,
    mpi: str | None,
    status: str | None,
    wait: str | None,
    memory: str | None,
    waits_only: bool,
    no_shim: bool,
    run_dir: Path,
    account: bool,
    verbose: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Start an MPI program that takes part in coscheduling.

    PROGRAM is a program with its arguments, or your own launcher with its command line.
    Streams, signals and the exit status are the launcher's. Where this node has no
    daemons, a private pair of them runs as long as the job.

    \b
    Examples:
      cosched-run -n 4 ./app
      cosched-run -n 4 python app.py
      cosched-run --hosts lab1,lab2 -n 8 --ppn 4 ./app
      cosched-run -- mpiexec -n 4 ./app
      cosched-run -- srun ./app
      cosched-run --wait block -n 4 ./app
      cosched-run --memory 8G -n 4 ./app
    """
    if not argv:
        raise click.UsageError("Missing PROGRAM.", ctx)
    if as_json and not dry_run:
        raise click.UsageError("--json needs --dry-run.", ctx)
    choices = choose(ctx, wait=wait, status=status, waits_only=waits_only, no_shim=no_shim)
    if job is not None:
        check_job_name(job)
    need_bytes = 0 if memory is None else parse_bytes(memory, "--memory")
    if need_bytes and (no_shim or waits_only):
        raise click.UsageError("--memory needs coscheduling: nobody else waits.", ctx)
    run_dir = run_dir.absolute()
    resolved = resolve(
        Request(argv, ranks, ppn, mpi, root=os.geteuid() == 0),
        find_site(run_dir, hosts),
        Places(Path(sys.executable).parent, os.environ),
    )
    for warning in resolved.warnings:
        _warn(warning)
    start = Start(
        resolved,
        job or default_job_name(resolved.label, os.urandom(_NOISE_BYTES)),
        run_dir,
        need_bytes,
        choices,
    )
    tasks = {} if no_shim else start.task_environment(part=not waits_only, verbose=verbose)
    if dry_run:
        _print_plan(resolved, start.name, tasks, as_json=as_json)
        return 0
    return start.carry_out(tasks, account=account, verbose=verbose)


@dataclass(frozen=True, slots=True)
class Start:
    """A job that is to be started. need_bytes: memory on each node, 0 for any."""

    job: Job
    name: str
    run_dir: Path
    need_bytes: int
    choices: Choices

    def task_environment(self, *, part: bool, verbose: bool) -> Mapping[str, str]:
        """What the ranks find in their environment. part: they are coscheduled."""
        shim = _shim(self.job)
        carrier = carrier_for(
            self.choices.status,
            interposer=shim is not None,
            surely_shimmed=self.job.surely_shimmed,
            wrapped=self.job.wrapped,
        )
        self.choices.check_carrier(carrier)
        submitted_ns = submission_ns(os.environ, time.time_ns())
        return task_environment(
            os.environ,
            part=Part(self.name, self.run_dir, carrier, self.need_bytes, submitted_ns)
            if part
            else None,
            wait=self.choices.policy,
            shim=shim,
            verbose=verbose,
        )

    def carry_out(self, tasks: Mapping[str, str], *, account: bool, verbose: bool) -> int:
        """Runs the launcher; the status to exit with, which is the launcher's."""
        from cosched.launch.process import exit_like

        lease = None
        if "COSCHED_JOB" in tasks:
            jobs_per_user = self.choices.limits.jobs_per_user
            wanted = (self.run_dir, self.name, jobs_per_user, self.need_bytes)
            if self.job.site.names:
                check_hosts(self.job.site, *wanted)
            else:
                lease = lease_here(*wanted, _warn)
                tasks = tasks if lease else {}
        if verbose:
            _say_what(self.job, self.name, tasks)
        began_wall_ns = time.time_ns()
        status_word = _run(self.job, tasks)
        if (account or verbose) and "COSCHED_JOB" in tasks:
            from cosched.cli.run.account import say_account

            say_account(
                local_nodes(self.job.site, self.run_dir),
                self.name,
                began_wall_ns,
                of=max(1, len(self.job.site.names)),
            )
        return exit_like(status_word)


def main() -> None:
    """Entry point of the ``cosched-run`` command."""
    sys.exit(run_cli(command, sys.argv[1:]))


def _shim(job: Job) -> Path | None:
    """The library to preload; None, with a warning, where there can be none."""
    from cosched.launch.shim import make_shim, plan_build

    try:
        build = plan_build(job.require_mpicc(), os.environ, standard_abi=job.standard_abi)
        if not build.is_built and sys.stderr.isatty():
            print("cosched-run: building the shim for this MPI, once", file=sys.stderr)
        return make_shim(build)
    except CoschedError as error:
        _warn(f"{error}; only programs that import mpi_shim are coscheduled")
        return None


def _print_plan(job: Job, name: str, tasks: Mapping[str, str], *, as_json: bool) -> None:
    import json
    import shlex

    command = job.command(tasks)
    environment = {**job.own_environment(), **tasks}
    if as_json:
        plan = {
            "job": name,
            "command": list(command.argv),
            "environment": environment,
            "hosts": list(job.site.names),
            "mpi": None
            if job.mpi is None
            else {
                "family": job.mpi.family.value,
                "engine": job.mpi.engine.value,
                "version": job.mpi.version,
                "mpiexec": str(job.mpi.mpiexec),
            },
            "mpicc": None if job.mpicc is None else str(job.mpicc),
        }
        print(json.dumps(plan))
        return
    print("command:", shlex.join(command.argv))
    words = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    print("environment:", *words)


def _say_what(job: Job, name: str, tasks: Mapping[str, str]) -> None:
    how = job.launcher
    if job.mpi is not None:
        how += f" ({job.mpi.title} {job.mpi.version})"
    what = (
        f"status {tasks['COSCHED_STATUS']}" if "COSCHED_JOB" in tasks else "not coscheduled"
    )
    if tasks.get("COSCHED_WAIT", "spin") != "spin":
        what += f"; waits: {tasks['COSCHED_WAIT'].partition(':')[0]}"
    print(f"cosched-run: job {name}: {how}; {what}", file=sys.stderr)


def _run(job: Job, tasks: Mapping[str, str]) -> int:
    """Runs the launcher; how it ended, as wait(2) tells."""
    from cosched.launch.process import run_launcher

    command = job.command(tasks)
    sys.stdout.flush()
    sys.stderr.flush()
    return run_launcher(
        command.argv,
        {**os.environ, **command.environ},
        death_signal=job.death_signal,
    )


def _warn(message: object) -> None:
    print(f"cosched-run: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
