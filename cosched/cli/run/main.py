"""``cosched-run``: starts an MPI job that takes part in coscheduling."""

from __future__ import annotations

import sys

import click

from cosched.cli.declared import command
from cosched.cli.entry import run_cli
from cosched.cli.groups import current_options
from cosched.cli.run.given import Given
from cosched.version import VERSION


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
class Run(Given):
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
    """

    def run(self) -> int:
        # The help needs neither of them.
        if self.domain:
            from cosched.cli.run.domain import run_in_domain

            return run_in_domain(self)
        from cosched.cli.run.start import run_here

        return run_here(self)


click.version_option(VERSION)(Run.click_command)


def main() -> None:
    """Entry point of the ``cosched-run`` command."""
    sys.exit(run_cli(Run.click_command, sys.argv[1:]))


if __name__ == "__main__":
    main()
