"""The metrics server as the scheduler daemon sees it: a child that answers Prometheus.

It is a process of its own so that no scrape keeps the daemon's loop waiting; it asks the
control socket like everybody else. The listening socket is bound here and handed down: an
address that is taken is told at the start, and a server that died is replaced without
anybody else getting the address. The pipe to its standard input ends with this process,
and the server with it.
"""

from __future__ import annotations

import os
import socket

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.node.children.child import Child, start_child
from cosched.node.children.kept_child import KeptChild
from cosched.node.loop import Loop
from cosched.shm.paths import NodePaths

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
        self._paths = paths
        self._socket = bind(listen)
        self._kept = KeptChild(loop, "metrics server", self._launch, RESTART_DELAY_NS)

    @property
    def pid(self) -> int | None:
        """The server's pid while it runs."""
        return self._kept.pid

    def start(self) -> None:
        """Starts the server; who connects before it is ready waits for it."""
        self._kept.start()

    def stop(self) -> None:
        """Ends it, waits for its end and lets the address go."""
        self._kept.stop()
        self._socket.close()

    def _launch(self) -> Child:
        return start_child(
            "cosched_daemons.metrics",
            [
                *("--run-dir", str(self._paths.run_dir), "--node", self._paths.node),
                *("--fd", str(self._socket.fileno())),
            ],
            pass_fds=[self._socket.fileno()],
        )
