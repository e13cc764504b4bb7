"""Answers Prometheus for one node (cosched-metrics); the scheduler daemon starts it."""

from __future__ import annotations

import argparse
import os
import select
import socket
import sys
import threading
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from cosched.core.errors import CoschedError
from cosched.node.service.lock import DaemonLock
from cosched.observe.metrics import NodeCollector
from cosched.shm.paths import NodePaths
from cosched.start.streams import begin

NICE = 5
REQUEST_TIMEOUT_S = 10


class Server(ThreadingMixIn, WSGIServer):
    """Serves HTTP on a bound socket, with one thread per request."""

    daemon_threads = True

    def __init__(self, fd: int) -> None:
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(fileno=fd)
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        self.setup_environ()


class Handler(WSGIRequestHandler):
    """Ends silent connections; writes no log of requests."""

    timeout = REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:
        return


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
    server = Server(fd)
    server.set_app(make_wsgi_app(registry))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        select.select([sys.stdin], [], [])
    finally:
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
