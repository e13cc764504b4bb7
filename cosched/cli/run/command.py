"""Declares the command line of ``cosched-run``, with its help and its errors.

``plain`` reads most command lines without this module, which takes long to import.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from cosched.cli.declared import Command, command, flag, option, part
from cosched.cli.groups import current_options
from cosched.cli.hosts_option import hosts_option
from cosched.cli.options import (
    PATH,
    check_sizes,
    ideal_option,
    json_option,
    memory_option,
    minimum_option,
    mpi_option,
    preferred_option,
    program_argument,
    run_dir_option_with,
)
from cosched.cli.run.choices import Asked
from cosched.cli.run.given import WORDS, Given
from cosched.cli.values import RUN_TIME, Parsed, Whole
from cosched.core.config.words import CARRIERS
from cosched.linux.here import this_node
from cosched.rundir.directories import run_dir_to_ask
from cosched.rundir.paths import check_job_name
from cosched.version import VERSION


def _job_name(text: str, _what: str) -> str:
    return check_job_name(text)


@dataclass(frozen=True)
class AskedOptions:
    """The options that say how ranks take part; their values are those of ``Asked``."""

    carrier: str | None = option(
        type=click.Choice(["auto", *CARRIERS]),
        help="How the sender's status travels: shadow, in messages of its own; prefix, one"
        " byte in front of each message; none, not at all. auto: shadow, but none"
        " without a shim.  [default: the configuration's, auto]",
    )
    wait: str | None = option(
        metavar="HOW",
        help="How ranks of a scheduled job wait: spin (as the MPI does), yield,"
        " block[:TIME], which spins for TIME (20us) and then sleeps, or auto[:TIME], which"
        " blocks where the CPUs are shared now. busy: ranks spin also while the job waits"
        " for its turn.  [default: the configuration's, spin]",
    )
    require_all: bool = flag(
        help="End the job in MPI_Init unless a daemon coschedules it on each of its nodes."
    )
    waits_only: bool = flag(help="Apply --wait, but do not coschedule.")
    no_shim: bool = flag(help="Start the job without cosched.")


class RunCommand(click.Command):
    """A command that accepts old names of its options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = current_options(ctx, self, ctx.command_path, args)
        return super().parse_args(ctx, words)


@command(
    "cosched-run",
    cls=RunCommand,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 80,
        "allow_interspersed_args": False,
    },
)
class Run(Command):
    """Start an MPI program that takes part in coscheduling.

    PROGRAM is a program with its arguments, or your own launcher with its command line.
    Streams, signals and the exit status are the launcher's. Ranks look for the daemons of
    the node where they run. If all run on this node and it has no daemons, private ones run
    as long as the job. Inside a Slurm job the ranks run on its nodes.

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
      cosched-run --domain --min 1 --ideal 8 python loop.py
    """

    ranks: int | None = option(
        *WORDS["ranks"],
        type=Whole(min=1),
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
        type=Whole(min=1), metavar="K", help="At most K ranks on a host."
    )
    name: str | None = option(
        *WORDS["name"],
        type=Parsed("NAME", _job_name),
        help="The job's name.  [default: the program's and a suffix]",
    )
    mpi: str | None = mpi_option(
        "An mpiexec, a prefix, mpich or openmpi.  [default: what the program uses]"
    )
    asked: AskedOptions = part(AskedOptions)  #: how the job takes part in coscheduling
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
    minimum: int | None = minimum_option()
    preferred: int | None = preferred_option()
    ideal: int | None = ideal_option()
    run_dir: Path = run_dir_option_with(
        lambda: run_dir_to_ask(os.environ, os.geteuid(), this_node(os.environ)),
        "$COSCHED_RUN_DIR, or /tmp/cosched-UID where daemons of yours are up, otherwise "
        "/run/cosched",
    )
    account: bool = flag(
        help="Print on stderr at the end how the job's time was spent (-v, too)."
    )
    verbose: bool = flag(*WORDS["verbose"], help="Print on stderr what is done.")
    dry_run: bool = flag(help="Only print the command and the environment.")
    as_json: bool = json_option()
    argv: tuple[str, ...] = program_argument()

    def __post_init__(self) -> None:
        if not self.argv:
            raise click.UsageError("Missing PROGRAM.")
        if self.as_json and not self.dry_run:
            raise click.UsageError("--json needs --dry-run.")
        if self.memory_bytes and (self.asked.no_shim or self.asked.waits_only):
            raise click.UsageError("--memory needs coscheduling.")
        if self.hosts and self.hostfile is not None:
            raise click.UsageError("--hosts and --hostfile cannot be combined.")
        unfit = self._unfit_for_domain() if self.domain else ""
        if unfit:
            raise click.UsageError(f"--domain cannot be combined with {unfit}.")
        if self.minimum and not self.domain:
            raise click.UsageError("--min needs --domain.")
        rigid = {"-n": self.ranks}
        check_sizes(self.minimum or 0, self.ideal or 0, rigid, self.preferred or 0)

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

    def run(self) -> int:
        from cosched.cli.run.start import start  # the help does not need it

        source = click.get_current_context().get_parameter_source("run_dir")
        values = {
            **vars(self),
            "asked": Asked(**vars(self.asked)),
            "names_run_dir": source is not ParameterSource.DEFAULT,
        }
        return start(Given(**values))


click.version_option(VERSION)(Run.click_command)
