"""Declares the options of ``cosched-run``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from cosched.cli.declared import Command, flag, option, part
from cosched.cli.options import (
    PATH,
    hosts_option,
    json_option,
    memory_option,
    mpi_option,
    program_argument,
    run_dir_option_with,
    this_node,
)
from cosched.cli.run.choices import Asked
from cosched.cli.values import RUN_TIME, Parsed
from cosched.rundir.directories import run_dir_to_ask
from cosched.rundir.paths import check_job_name


def _job_name(text: str, _what: str) -> str:
    check_job_name(text)
    return text


@dataclass(frozen=True)
class Given(Command):
    """The options of ``cosched-run``. None: not given."""

    ranks: int | None = option(
        "-n",
        "-np",
        "--ranks",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many ranks.  [default: 1, or --ppn on each host]",
    )
    hosts: tuple[str, ...] = hosts_option(
        "The nodes that they run on, such as n1,n2 or n[1-4,7]."
    )
    hostfile: Path | None = option(
        type=PATH,
        metavar="FILE",
        help="The same from a file, a host a line: n1, n1:2 or n1 slots=2.",
    )
    ppn: int | None = option(
        type=click.IntRange(min=1), metavar="K", help="At most K ranks on a host."
    )
    name: str | None = option(
        "--job",
        type=Parsed("NAME", _job_name),
        help="[default: the program's name and a suffix]",
    )
    mpi: str | None = mpi_option(
        "An mpiexec, a prefix, mpich or openmpi.  [default: what the program uses]"
    )
    asked: Asked = part(Asked)  #: how the job takes part in coscheduling
    register: str = option(
        type=click.Choice(["start", "init"]),
        default="start",
        help="When ranks register: at their start, so that the job is launched in its own"
        " turn, or in MPI_Init.  [default: start]",
    )
    memory_bytes: int = memory_option(
        "Memory that the job needs on each of its nodes, such as 8G: it starts when that"
        " much is free."
    )
    time_ns: int | None = option(
        "--time",
        type=RUN_TIME,
        help="How long the job runs alone: 90 or 90s, 1:30 (minutes), 2h, 2:00:00 or"
        " 1-12:00:00 (days).  [default: as long as its earlier runs]",
    )
    domain: bool = flag(
        help="Let the agents of the domain start the ranks, on nodes that are free now. If"
        " none are, the job is refused; cosched submit waits. --time is the job's limit"
        " then."
    )
    run_dir: Path = run_dir_option_with(
        lambda: run_dir_to_ask(os.environ, os.geteuid(), this_node()),
        "/tmp/cosched-UID where daemons of yours are up, else /run/cosched",
    )
    account: bool = flag(
        help="Print on stderr at the end how the job's time was spent (-v, too)."
    )
    verbose: bool = flag("-v", "--verbose", help="Print on stderr what is done.")
    dry_run: bool = flag(help="Only print the command and the environment.")
    as_json: bool = json_option()
    argv: tuple[str, ...] = program_argument()

    def __post_init__(self) -> None:
        if not self.argv:
            raise click.UsageError("Missing PROGRAM.")
        if self.as_json and not self.dry_run:
            raise click.UsageError("--json needs --dry-run.")
        if self.memory_bytes and not self.asked.coschedules:
            raise click.UsageError("--memory needs coscheduling.")
        if self.hosts and self.hostfile is not None:
            raise click.UsageError("--hosts and --hostfile cannot be combined.")
        unfit = self._unfit_for_domain() if self.domain else ""
        if unfit:
            raise click.UsageError(f"--domain cannot be combined with {unfit}.")

    def _unfit_for_domain(self) -> str:
        """Returns an option for the MPI's own launcher, or for its start; "" if none."""
        unfit = {
            "--hosts": bool(self.hosts),
            "--hostfile": self.hostfile is not None,
            "--require-all": self.asked.require_all,
            "--waits-only": self.asked.waits_only,
            "--account": self.account,
            "--dry-run": self.dry_run,
            "--register init": self.register == "init",
        }
        return next((word for word, is_given in unfit.items() if is_given), "")


def names_run_dir() -> bool:
    """Returns whether the command line has --run-dir."""
    source = click.get_current_context().get_parameter_source("run_dir")
    return source is not ParameterSource.DEFAULT
