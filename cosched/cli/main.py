"""``cosched``: the table of its commands."""

from __future__ import annotations

import sys

import click

from cosched.cli.entry import run_cli
from cosched.cli.groups import LazyGroup
from cosched.version import VERSION

SECTIONS = {
    "Jobs": {
        "status": ("jobs.status", "command", "Show nodes, jobs, shares and switches."),
        "top": ("jobs.top", "command", "Show nodes and jobs, live."),
        "why": ("jobs.why", "command", "Explain why a job runs or does not."),
        "history": ("jobs.history", "command", "Show jobs that have ended."),
        "suspend": ("jobs.steer", "suspend", "Stop a job of yours until you resume it."),
        "resume": ("jobs.steer", "resume", "Undo suspend, boost or detach."),
        "boost": ("jobs.steer", "boost", "Run a job alone on its CPUs."),
        "detach": ("jobs.steer", "detach", "Take a job out of coscheduling."),
    },
    "Nodes": {
        "up": ("nodes.up", "command", "Start the daemons of this node."),
        "down": ("nodes.down", "command", "Stop the daemons of this node."),
        "config": ("nodes.config", "command", "Show, check and change the configuration."),
        "doctor": ("nodes.doctor", "command", "Examine nodes; say what to repair."),
    },
    "Domain": {
        "submit": ("domain.submit", "command", "Send a job to the domain's queue."),
        "queue": ("domain.queue", "command", "Show the jobs that wait or run there."),
        "output": ("domain.output", "command", "Print the output of a job."),
        "cancel": ("domain.steer", "cancel", "End jobs, or take them from the queue."),
        "hold": ("domain.steer", "hold", "Keep waiting jobs from starting."),
        "unhold": ("domain.steer", "unhold", "Let held jobs start."),
        "cluster": ("cluster.group", "command", "Run a queue and an agent on each node."),
    },
    "Measure": {
        "bench": ("measure.bench", "command", "Compare runs with and without cosched."),
        "tune": ("measure.tune", "command", "Find the best slice and GMET for a workload."),
        "advise": ("measure.advise", "command", "Advise whether to coschedule a job."),
        "report": ("measure.report", "command", "Draw traces and bench results as HTML."),
        "replay": ("measure.replay", "command", "Replay a trace and compare decisions."),
        "sim": ("sim.group", "command", "Try scheduling decisions in virtual time."),
    },
    "Tools": {
        "lab": ("tools.lab", "command", "Make virtual nodes on this machine."),
        "shim": ("tools.shim", "command", "Inspect, build or check the MPI interposer."),
        "completion": ("tools.completion", "command", "Complete command lines in a shell."),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


@click.command(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 80,
        "show_default": True,
    },
    epilog="Start jobs with cosched-run; see cosched-run --help.",
)
@click.version_option(VERSION)
def cosched() -> None:
    """Coscheduling of MPI jobs that share nodes.

    \b
    Examples:
      cosched lab up --nodes 2
      cosched-run --hosts lab1,lab2 -n 2 ./app
      cosched status
      cosched config set slice=0.5s gmet=0.1s
      cosched lab down
    """


def main() -> None:
    """Entry point of the ``cosched`` command."""
    sys.exit(run_cli(cosched, sys.argv[1:]))


if __name__ == "__main__":
    main()
