"""Runs the agent of one node of a domain (cosched-agent): it starts the tasks of jobs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cosched.cluster.agent.agent import serve
from cosched.cluster.agent.steps import NoStepNotes, StepFile
from cosched.core.errors import CoschedError
from cosched.core.names import member_of
from cosched.rundir.option import add_run_dir, chosen_run_dir
from cosched.start.streams import begin


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the agent's options, which its manual page uses too."""
    options = argparse.ArgumentParser(
        prog="cosched-agent",
        description="The agent of one node of a domain. It starts and ends the tasks of "
        "jobs. It reads domain.toml and its keys in the directory domain of the run "
        "directory. Users start it with cosched cluster up, init systems with "
        "cosched-agent.",
        epilog="example: cosched-agent --run-dir /run/cosched",
    )
    add_run_dir(options)
    options.add_argument(
        "--node", default=member_of(os.uname().nodename), help="this node's name"
    )
    options.add_argument(
        "--steps",
        type=Path,
        metavar="FILE",
        help="append when each start reaches its steps, for measurements",
    )
    return options


def main() -> None:
    """Runs the agent."""
    begin()
    options = parser().parse_args()
    try:
        notes = (
            NoStepNotes()
            if options.steps is None
            else StepFile(options.steps, options.node)
        )
        serve(chosen_run_dir(options.run_dir, os.environ), options.node, notes)
    except CoschedError as error:
        raise SystemExit(f"cosched-agent: {error}") from None


if __name__ == "__main__":
    main()
