"""The metrics server as the scheduler daemon sees it: a child that answers Prometheus.

It is a process of its own so that no scrape keeps the daemon's loop waiting; it asks the
control socket like everybody else. The listening socket is bound here and handed down: an
address that is taken is told at the start, and a server that died is replaced without
anybody else getting the address. The pipe to its standard input ends with this process,
and the server with it.
"""

from __future__ import annotations

import logging
import os
import socket
import time

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.node.child import Child, start_child
from cosched.node.loop import Loop
from cosched.shm.paths import NodePaths

log = logging.getLogger(__name__)

RESTART_DELAY_NS = NS_PER_S
_BACKLOG = 16


def bind(listen: str) -> socket.socket:
    """A listening socket at ``HOST:PORT``; CoschedError if it cannot be had."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
        raise CoschedError(
            f"metrics: cannot listen at {listen} ({reason}); choose another address"
        ) from None


class MetricsProcess:
    """Keeps a metrics server running for as long as this process lives."""

    def __init__(self, loop: Loop, paths: NodePaths, listen: str) -> None:
        self.listen = listen
        self._loop = loop
        self._paths = paths
        self._socket = bind(listen)
        self._child: Child | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """The server's pid while it runs."""
        return self._child.process.pid if self._child else None

    def start(self) -> None:
        """Starts the server; who connects before it is ready waits for it."""
        self._child = start_child(
            "cosched_daemons.metrics",
            [
                *("--run-dir", str(self._paths.run_dir), "--node", self._paths.node),
                *("--fd", str(self._socket.fileno())),
            ],
            pass_fds=[self._socket.fileno()],
        )
        self._loop.watch(self._child.pidfd, self._ended)

    def stop(self) -> None:
        """Ends it, waits for its end and lets the address go."""
        self._stopping = True
        if self._child is not None:
            self._child.process.terminate()
            self._forget(self._child)
        self._socket.close()

    def _ended(self) -> None:
        assert self._child is not None
        status = self._forget(self._child)
        log.warning("the metrics server ended with status %d; starting another", status)
        self._start_later()

    def _start_later(self) -> None:
        self._loop.call_at(time.monotonic_ns() + RESTART_DELAY_NS, self._start_again)

    def _start_again(self) -> None:
        if self._stopping:
            return
        try:
            self.start()
        except OSError as error:
            log.error("no metrics server for now: %s", error)
            self._start_later()

    def _forget(self, child: Child) -> int:
        """Waits for its end and returns its status."""
        status = child.process.wait()
        self._child = None
        self._loop.unwatch(child.pidfd)
        child.close()
        return status
