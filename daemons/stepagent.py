"""Runs the agent of the node on which it is a task of a Slurm step; see cluster/slurm."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from cosched.cluster.agent.agent import serve
from cosched.cluster.agent.steps import NoStepNotes
from cosched.cluster.paths import DomainPaths
from cosched.cluster.slurm.allocation import own_part
from cosched.cluster.slurm.step import ABSENT, FAILED, mark_path
from cosched.core.errors import CoschedError
from cosched.start.streams import begin

#: A network file system may show a new file late.
VISIBLE_WITHIN_S = 5.0
_POLL_S = 0.1


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the options."""
    options = argparse.ArgumentParser(
        prog="cosched-stepagent",
        description=__doc__,
        epilog="example: srun python -m cosched_daemons.stepagent --run-dir R --mark M",
    )
    options.add_argument("--run-dir", type=Path, required=True)
    options.add_argument("--mark", required=True, help="the contents of domain/step.mark")
    return options


def main() -> None:
    """Runs the agent; its log is a file, stdout gets one line for cosched cluster up."""
    begin()
    options = parser().parse_args()
    paths = DomainPaths(options.run_dir)
    if not _is_visible(mark_path(paths), options.mark):
        print(ABSENT, flush=True)
        raise SystemExit(1)
    try:
        node, slots = own_part(os.environ)
        _log_to(paths.agent_log(node))
        serve(options.run_dir, node, NoStepNotes(), slots)
    except CoschedError as error:
        # In one write: srun passes on lines.
        sys.stdout.write(f"{FAILED} {error}\n")
        sys.stdout.flush()
        raise SystemExit(f"cosched-agent: {error}") from None


def _is_visible(path: Path, mark: str) -> bool:
    deadline = time.monotonic() + VISIBLE_WITHIN_S
    while True:
        try:
            if path.read_text(errors="replace") == mark:
                return True
        except OSError:
            pass  # it may become visible
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)


def _log_to(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.dup2(descriptor, 2)
    os.close(descriptor)


if __name__ == "__main__":
    main()
