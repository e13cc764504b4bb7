"""Runs the agent of a node that Slurm gave a domain later; see cosched/cluster/slurm."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from pathlib import Path

from cosched.cluster.agent.agent import serve
from cosched.cluster.agent.steps import NoStepNotes
from cosched.cluster.keys import known_keys
from cosched.cluster.member import log_line
from cosched.cluster.paths import DomainPaths
from cosched.cluster.slurm.allocation import own_part
from cosched.cluster.slurm.node_jobs import has_ended
from cosched.config.domain import load_config
from cosched.core.complaints import Complaints
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from cosched.start.streams import begin

#: How long the node may take to be added to the domain.
ADDED_WITHIN_S = 120.0
_POLL_S = 0.5
#: The time between two looks at the domain's own job of Slurm, in seconds.
_LOOK_S = 15.0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the options."""
    options = argparse.ArgumentParser(
        prog="cosched-slurmagent",
        description=__doc__,
        epilog="example: cosched-slurmagent --run-dir R --base 7",
    )
    options.add_argument("--run-dir", type=Path, required=True)
    options.add_argument("--base", type=int, required=True, help="the domain's Slurm job")
    return options


def main() -> None:
    """Runs the agent until the node is removed, or the domain's own job ends."""
    begin()
    options = parser().parse_args()
    try:
        node, slots = own_part(os.environ)
        paths = DomainPaths(options.run_dir)
        _wait_added(paths, node)
        looking = threading.Thread(
            target=_end_with, args=(options.base, paths), daemon=True
        )
        looking.start()
        serve(options.run_dir, node, NoStepNotes(), slots)
    except CoschedError as error:
        raise SystemExit(f"cosched-slurmagent: {error}") from None


def _wait_added(paths: DomainPaths, node: str) -> None:
    """Waits until domain.toml has the node. A network file system may show that late."""
    deadline = time.monotonic() + ADDED_WITHIN_S
    while not (
        paths.config.exists()
        and node in load_config(paths.config).nodes
        and len(known_keys(paths.keys, (CONTROLLER, node))) == 2
    ):
        if time.monotonic() >= deadline:
            raise CoschedError(f"{paths.config}: does not get node {node}")
        time.sleep(_POLL_S)


def _end_with(base: int, paths: DomainPaths) -> None:
    """Ends this process once Slurm reports that a job has ended."""
    complaints = Complaints(log_line, time.monotonic_ns)
    ended = False
    while not ended:
        time.sleep(_LOOK_S)
        try:
            ended = has_ended(base, paths, os.environ)
        except CoschedError as error:
            complaints.about(None, f"cannot look at job {base} of Slurm", str(error))
    log_line(f"job {base} of Slurm, with the domain's controller, has ended")
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
