"""Lets a domain in a Slurm allocation grow and shrink; see cosched/cluster/slurm."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import threading
import time
from pathlib import Path

from cosched.cluster.client import Client, NoDomain
from cosched.cluster.member import READY, log_line
from cosched.cluster.paths import DomainPaths
from cosched.cluster.slurm.growing import Growing
from cosched.cluster.slurm.node_jobs import NodeJobs
from cosched.config.domain import load_config
from cosched.core.cluster.growth import Bounds
from cosched.core.complaints import Complaints
from cosched.core.decoding import parse_address
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.rundir.lock import is_held
from cosched.start.streams import begin

#: The time between two looks at Slurm and the domain, in seconds.
POLL_S = 2.0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the options."""
    options = argparse.ArgumentParser(
        prog="cosched-slurmnodes",
        description=__doc__,
        epilog="example: cosched-slurmnodes --run-dir R --base 7 --kept n1 --most 4",
    )
    options.add_argument("--run-dir", type=Path, required=True)
    options.add_argument("--base", type=int, required=True, help="the domain's Slurm job")
    options.add_argument("--kept", required=True, help="a node of that job that stays")
    options.add_argument("--least", type=int, required=True, help="nodes at least")
    options.add_argument("--most", type=int, required=True, help="nodes at most")
    options.add_argument("--idle", type=float, default=60.0, help="seconds")
    options.add_argument("--cpus", type=int, default=1, help="of each node")
    options.add_argument("--sbatch", default="", help="further words for sbatch")
    return options


def main() -> None:
    """Runs until the domain or its allocation ends; ends the other jobs of Slurm then."""
    begin()
    options = parser().parse_args()
    paths = DomainPaths(options.run_dir)
    config = load_config(paths.config)
    _, port = parse_address(next(iter(config.nodes.values())))
    words = shlex.split(options.sbatch)
    jobs = NodeJobs(paths, options.base, options.cpus, words, os.environ)
    bounds = Bounds(options.least, options.most, round(options.idle * NS_PER_S))
    growing = Growing(bounds, config.node_names, options.kept, port, jobs, log_line)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    print(READY, flush=True)
    _run(paths, growing, ended)
    try:
        growing.end()
    except CoschedError as error:
        raise SystemExit(f"cosched-slurmnodes: {error}") from None


def _run(paths: DomainPaths, growing: Growing, ended: threading.Event) -> None:
    complaints = Complaints(log_line, time.monotonic_ns)
    while is_held(paths.controller_lock) and not ended.is_set():
        try:
            with Client.connect(paths.run_dir) as client:
                growing.step(client, time.monotonic_ns())
        except NoDomain:
            pass  # it ends, or is about to listen again
        except CoschedError as error:
            complaints.about(None, "a step failed and is tried again", str(error))
        ended.wait(POLL_S)


if __name__ == "__main__":
    main()
