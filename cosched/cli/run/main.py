"""``cosched-run``: starts an MPI job that takes part in coscheduling."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from cosched.cli.declared import takes
from cosched.cli.entry import run_cli
from cosched.cli.groups import current_options
from cosched.cli.run.given import Given, names_run_dir
from cosched.cli.run.hosts import choose_hosts
from cosched.cli.run.placement import place_of, ranks_stay_here
from cosched.cli.run.plan import plan_json, plan_text
from cosched.cli.run.site import find_site
from cosched.cli.run.start import Start, warn
from cosched.core.units import NS_PER_S
from cosched.jobs.choices import Choices
from cosched.jobs.job import Job
from cosched.launch.environment import default_job_name
from cosched.launch.given.engine_job import EngineJob, engine_job
from cosched.launch.given.hosts import Hosts
from cosched.launch.job import Job as Resolved
from cosched.launch.job import Request, resolve, starts_ranks_itself
from cosched.launch.mpi import Places
from cosched.linux.here import this_machine
from cosched.shm.userdirs import domain_dir_to_ask
from cosched.version import VERSION

_NOISE_BYTES = 4


class RunCommand(click.Command):
    """A command that accepts old names of its options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = current_options(ctx, self, ctx.command_path, args)
        return super().parse_args(ctx, words)


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
@takes(Given)
@click.version_option(VERSION)
def command(given: Given) -> int:
    choices = given.asked.choices()
    if given.domain:
        return _run_in_domain(given, choices)
    engine = engine_job(os.environ)
    chosen = choose_hosts(
        given.hosts, given.hostfile, None if starts_ranks_itself(given.argv) else engine
    )
    resolved = _resolve(
        Request(
            given.argv,
            given.ranks or chosen.ranks,
            given.ppn,
            given.mpi,
            root=os.geteuid() == 0,
        ),
        given.run_dir,
        chosen.hosts,
    )
    stays_here = ranks_stay_here(resolved, engine, this_machine(), os.environ)
    is_named = names_run_dir() or bool(os.environ.get("COSCHED_RUN_DIR"))
    start = Start(
        given,
        choices,
        resolved,
        name=given.name or _usual_name(resolved.label, engine),
        named_run_dir=given.run_dir if is_named else None,
        stays_here=stays_here,
        place=None if stays_here else place_of(resolved, engine, os.environ),
    )
    tasks = start.task_environment()
    if given.dry_run:
        as_planned = plan_json(resolved, start.name, tasks)
        click.echo(as_planned if given.as_json else plan_text(resolved, tasks))
        return 0
    return start.carry_out(tasks)


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


def _run_in_domain(given: Given, choices: Choices) -> int:
    from cosched.cli.run.domain import run_in_domain

    usual = domain_dir_to_ask(os.environ, os.geteuid())
    run_dir = given.run_dir if names_run_dir() else usual
    job = Job(
        given.argv,
        ranks=given.ranks or 0,
        ppn=given.ppn or 0,
        time_s=(given.time_ns or 0) / NS_PER_S,
        name=given.name or "",
        mpi=given.mpi,
        shim=not given.asked.no_shim,
        memory_bytes=given.memory_bytes,
    )
    return run_in_domain(job, run_dir.absolute(), choices, verbose=given.verbose)


def main() -> None:
    """Entry point of the ``cosched-run`` command."""
    sys.exit(run_cli(command, sys.argv[1:]))


if __name__ == "__main__":
    main()
