"""``cosched``: parse, call, print. Each command lives in a module of its own, imported
only when it is used, so that ``cosched --help`` is quick."""

from __future__ import annotations

import importlib
import sys

import click

from cosched.cli.options import run_cli

COMMANDS = {
    "up": ("cosched.cli.nodes.up", "Start the daemons of this node."),
    "down": ("cosched.cli.nodes.down", "Stop the daemons of this node."),
    "config": ("cosched.cli.nodes.config", "Show, check and change the configuration."),
    "set": ("cosched.cli.nodes.set", "Short for 'cosched config set'."),
    "status": ("cosched.cli.jobs.status", "Show nodes, jobs, shares and switches."),
    "why": ("cosched.cli.jobs.why", "Say why a job runs or does not."),
    "history": ("cosched.cli.jobs.history", "Show jobs that have ended."),
    "replay": ("cosched.cli.measure.replay", "Tell a trace's events to the machine anew."),
    "top": ("cosched.cli.jobs.top", "Show nodes and jobs, live."),
    "suspend": ("cosched.cli.jobs.suspend", "Stop a job of yours until it is resumed."),
    "resume": ("cosched.cli.jobs.resume", "Make a job an ordinary one again."),
    "raise": ("cosched.cli.jobs.raise", "Have a job run alone on its CPUs."),
    "release": ("cosched.cli.jobs.release", "Take a job out of coscheduling."),
    "advise": ("cosched.cli.measure.advise", "Say whether coscheduling pays for a job."),
    "lab": ("cosched.cli.tools.lab", "Make virtual nodes on this machine."),
    "bench": ("cosched.cli.measure.bench", "Run a workload with and without cosched."),
    "tune": ("cosched.cli.measure.tune", "Find the slice and GMET that suit a workload."),
    "sim": ("cosched.cli.sim.queue", "Try scheduling decisions in virtual time."),
    "shim": ("cosched.cli.tools.shim", "Inspect, build or check the MPI interposer."),
    "report": (
        "cosched.cli.measure.report",
        "Draw traces and bench results: one HTML file.",
    ),
    "completion": ("cosched.cli.tools.completion", "Complete command lines in your shell."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="Start jobs with cosched-run; see cosched-run --help.",
)
@click.version_option(package_name="cosched")
def cosched() -> None:
    """Coscheduling of MPI jobs that share nodes.

    \b
    Examples:
      cosched lab up --nodes 2
      cosched-run --hosts lab1,lab2 -n 2 ./app
      cosched status
      cosched set slice=0.5s gmet=0.1s
      cosched lab down
    """


def main() -> None:
    """Entry point of the ``cosched`` command."""
    sys.exit(run_cli(cosched, sys.argv[1:]))


if __name__ == "__main__":
    main()
