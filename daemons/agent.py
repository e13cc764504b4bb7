"""Runs the agent of one node of a domain (cosched-agent): it starts the tasks of jobs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cosched.cluster.agent.steps import NoStepNotes, StepFile
from cosched.cluster.services.agent import serve
from cosched.core.errors import CoschedError


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the agent's options."""
    options = argparse.ArgumentParser(
        prog="cosched-agent",
        description=__doc__,
        epilog="example: cosched-agent --run-dir /run/cosched",
    )
    options.add_argument("--run-dir", type=Path, default=Path("/run/cosched"))
    options.add_argument("--node", default=os.uname().nodename, help="this node's name")
    options.add_argument(
        "--steps",
        type=Path,
        metavar="FILE",
        help="append when each start reaches its steps, for measurements",
    )
    return options


def main() -> None:
    """Runs the agent."""
    options = parser().parse_args()
    try:
        notes = (
            NoStepNotes()
            if options.steps is None
            else StepFile(options.steps, options.node)
        )
        serve(options.run_dir, options.node, notes)
    except CoschedError as error:
        raise SystemExit(f"cosched-agent: {error}") from None


if __name__ == "__main__":
    main()
