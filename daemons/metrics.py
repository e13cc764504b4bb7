"""Answers Prometheus for one node (cosched-metrics); the scheduler daemon starts it."""

from __future__ import annotations

import argparse
import os
import select
import socket
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry

from cosched.core.errors import CoschedError
from cosched.observe.metrics import NodeCollector
from cosched.rundir.lock import DaemonLock
from cosched.rundir.paths import NodePaths
from cosched.service.metrics_server import MetricsServer
from cosched.start.streams import begin

NICE = 5


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the server's options."""
    options = argparse.ArgumentParser(prog="cosched-metrics", description=__doc__)
    options.add_argument("--run-dir", type=Path, required=True)
    options.add_argument("--node", default=os.uname().nodename)
    options.add_argument("--fd", type=int, required=True, help="the listening socket")
    return options


def serve(paths: NodePaths, fd: int) -> None:
    """Serves until standard input ends, which means the end of the scheduler daemon."""
    lock = DaemonLock(paths.metrics_lock)
    if not lock.acquire():
        raise CoschedError(f"node {paths.node}: another metrics server is up")
    os.nice(NICE)
    registry = CollectorRegistry()
    registry.register(NodeCollector(paths))
    end = MetricsServer(socket.socket(fileno=fd), registry).start()
    try:
        select.select([sys.stdin], [], [])
    finally:
        end()
        lock.release()


def main() -> None:
    """Runs the metrics server."""
    begin()
    options = parser().parse_args()
    try:
        serve(NodePaths(options.run_dir, options.node), options.fd)
    except CoschedError as error:
        sys.exit(f"cosched-metrics: {error}")


if __name__ == "__main__":
    main()
