"""``cosched-run``: starts an MPI job that takes part in coscheduling."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from click.core import ParameterSource

from cosched.cli.entry import run_cli
from cosched.cli.groups import current_options
from cosched.cli.options import (
    hosts_option,
    json_option,
    memory_option,
    program_argument,
    run_dir_option_with,
)
from cosched.cli.run.choices import choice_options, run_time
from cosched.cli.run.hosts import choose_hosts
from cosched.cli.run.placement import place_of, ranks_stay_here
from cosched.cli.run.plan import plan_json, plan_text
from cosched.cli.run.site import find_site, this_node
from cosched.cli.run.start import Start, warn
from cosched.core.units import NS_PER_S
from cosched.jobs.choices import Choices
from cosched.jobs.expected import Lengths
from cosched.jobs.job import Job
from cosched.launch.environment import default_job_name
from cosched.launch.given.engine_job import EngineJob, engine_job
from cosched.launch.given.hosts import Hosts
from cosched.launch.job import Job as Resolved
from cosched.launch.job import Request, resolve, starts_ranks_itself
from cosched.launch.mpi import Places
from cosched.linux.here import this_machine
from cosched.shm.paths import check_job_name
from cosched.shm.userdirs import domain_dir_to_ask, run_dir_to_ask
from cosched.version import VERSION

_NOISE_BYTES = 4


class RunCommand(click.Command):
    """A command that accepts old names of its options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = current_options(ctx, self, ctx.command_path, args)
        return super().parse_args(ctx, words)


def _job_name(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    if text is not None:
        check_job_name(text)
    return text


HELP = """\
Start an MPI program that takes part in coscheduling.

PROGRAM is a program with its arguments, or your own launcher with its command line.
Streams, signals and the exit status are the launcher's. Ranks look for the daemons of the
node where they run. If all run on this node and it has no daemons, private ones run as
long as the job. Inside a Slurm job the ranks run on its nodes.

How long your jobs run is recorded in ~/.local/state/cosched/runs.jsonl, to order later
ones. COSCHED_RUNS=off turns that off, and COSCHED_RUNS=FILE names another file.

\b
Examples:
  cosched-run -n 4 ./app
  cosched-run -n 4 python app.py
  cosched-run --hosts 'n[1-4]' -n 8 --ppn 2 ./app
  cosched-run -- mpiexec -n 4 ./app
  cosched-run -- srun ./app
  cosched-run --wait block -n 4 ./app
  cosched-run --memory 8G -n 4 ./app
  cosched-run --time 1:30:00 -n 4 ./app
  cosched-run --domain -n 4 ./app
"""


@click.command(
    "cosched-run",
    cls=RunCommand,
    help=HELP,
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
@hosts_option("The nodes that they run on, such as n1,n2 or n[1-4,7].")
@click.option(
    "--hostfile",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The same from a file, a host a line: n1, n1:2 or n1 slots=2.",
)
@click.option(
    "--ppn", type=click.IntRange(min=1), metavar="K", help="At most K ranks on a host."
)
@click.option(
    "--job",
    metavar="NAME",
    callback=_job_name,
    help="[default: the program's name and a suffix]",
)
@click.option(
    "--mpi",
    metavar="MPI",
    help="An mpiexec, a prefix, mpich or openmpi.  [default: what the program uses]",
)
@choice_options
@click.option(
    "--register",
    type=click.Choice(["start", "init"]),
    default="start",
    help="When ranks register: at their start, so that the job is launched in its own turn,"
    " or in MPI_Init.  [default: start]",
)
@memory_option(
    "Memory that the job needs on each of its nodes, such as 8G: it starts when that much"
    " is free."
)
@click.option(
    "--time",
    "time_ns",
    metavar="TIME",
    callback=run_time,
    help="How long the job runs alone: 90 or 90s, 1:30 (minutes), 2h, 2:00:00 or"
    " 1-12:00:00 (days).  [default: as long as its earlier runs]",
)
@click.option(
    "--domain",
    is_flag=True,
    help="Let the agents of the domain start the ranks, on nodes that are free now. If none"
    " are, the job is refused; cosched submit waits. --time is the job's limit then.",
)
@run_dir_option_with(
    lambda: run_dir_to_ask(os.environ, os.geteuid(), this_node()),
    "/tmp/cosched-UID where daemons of yours are up, else /run/cosched",
)
@click.option(
    "--account",
    is_flag=True,
    help="Print on stderr at the end how the job's time was spent (-v, too).",
)
@click.option("-v", "--verbose", is_flag=True, help="Print on stderr what is done.")
@click.option("--dry-run", is_flag=True, help="Only print the command and the environment.")
@json_option
@click.version_option(VERSION)
@program_argument
@click.pass_context
def command(
    ctx: click.Context,
    argv: tuple[str, ...],
    ranks: int | None,
    hosts: tuple[str, ...],
    hostfile: Path | None,
    ppn: int | None,
    job: str | None,
    mpi: str | None,
    choices: Choices,
    register: str,
    memory_bytes: int,
    time_ns: int | None,
    domain: bool,
    waits_only: bool,
    no_shim: bool,
    run_dir: Path,
    account: bool,
    verbose: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    if not argv:
        raise click.UsageError("Missing PROGRAM.", ctx)
    if as_json and not dry_run:
        raise click.UsageError("--json needs --dry-run.", ctx)
    if memory_bytes and (no_shim or waits_only):
        raise click.UsageError("--memory needs coscheduling.", ctx)
    if domain:
        return _run_in_domain(ctx, choices)
    run_dir = run_dir.absolute()
    engine = engine_job(os.environ)
    chosen = choose_hosts(
        ctx, hosts, hostfile, None if starts_ranks_itself(argv) else engine
    )
    request = Request(argv, ranks or chosen.ranks, ppn, mpi, root=os.geteuid() == 0)
    resolved = _resolve(request, run_dir, chosen.hosts)
    stays_here = ranks_stay_here(resolved, engine, this_machine(), os.environ)
    start = Start(
        resolved,
        job or _usual_name(resolved.label, engine),
        run_dir if _is_named(ctx) else None,
        run_dir,
        stays_here,
        None if stays_here else place_of(resolved, engine, os.environ),
        memory_bytes,
        time_ns,
        Lengths(warn),
        choices,
        register == "init",
    )
    tasks = {} if no_shim else start.task_environment(part=not waits_only, verbose=verbose)
    if dry_run:
        as_planned = plan_json(resolved, start.name, tasks)
        click.echo(as_planned if as_json else plan_text(resolved, tasks))
        return 0
    return start.carry_out(tasks, account=account, verbose=verbose)


def _resolve(request: Request, run_dir: Path, hosts: Hosts) -> Resolved:
    """Returns how the ranks are started; prints the warnings about it."""
    places = Places(Path(sys.executable).parent, os.environ)
    resolved = resolve(request, find_site(run_dir, hosts), places)
    for warning in resolved.warnings:
        warn(warning)
    return resolved


def _usual_name(label: str, engine: EngineJob | None) -> str:
    number = "" if engine is None else engine.label
    return default_job_name(label, os.urandom(_NOISE_BYTES), number)


def _is_named(ctx: click.Context) -> bool:
    """Whether the user named a run directory."""
    usual = ctx.get_parameter_source("run_dir") is ParameterSource.DEFAULT
    return not usual or bool(os.environ.get("COSCHED_RUN_DIR"))


def _run_in_domain(ctx: click.Context, choices: Choices) -> int:
    from cosched.cli.run.domain import check_options, run_in_domain

    check_options(ctx)
    given = ctx.params
    usual = ctx.get_parameter_source("run_dir") is ParameterSource.DEFAULT
    run_dir = domain_dir_to_ask(os.environ, os.geteuid()) if usual else given["run_dir"]
    job = Job(
        given["argv"],
        ranks=given["ranks"] or 0,
        ppn=given["ppn"] or 0,
        time_s=(given["time_ns"] or 0) / NS_PER_S,
        name=given["job"] or "",
        mpi=given["mpi"],
        shim=not given["no_shim"],
        memory_bytes=given["memory_bytes"],
    )
    return run_in_domain(job, run_dir.absolute(), choices, verbose=given["verbose"])


def main() -> None:
    """Entry point of the ``cosched-run`` command."""
    sys.exit(run_cli(command, sys.argv[1:]))


if __name__ == "__main__":
    main()
