"""Runs the metrics server, which answers Prometheus, as a child of the scheduler daemon.

A separate process keeps scrapes out of the daemon's loop; it reads the control socket as
any client does. This module opens the listening socket and passes it on. So an address in
use is reported at the start, and a restarted server keeps its address. The server ends with
the daemon, because its standard input ends then.
"""

from __future__ import annotations

from cosched.core.units import NS_PER_S
from cosched.node.children.kept_child import Child, KeptChild, start_child
from cosched.rundir.paths import NodePaths
from cosched.service.loop import Loop
from cosched.service.tcp import listen_at

RESTART_DELAY_NS = NS_PER_S


class MetricsProcess(KeptChild):
    """Keeps a metrics server running for as long as this process lives."""

    def __init__(self, loop: Loop, paths: NodePaths, listen: str) -> None:
        super().__init__(loop, "metrics server", RESTART_DELAY_NS)
        self._paths = paths
        # Clients that connect before the server is ready wait.
        self._socket = listen_at(listen, "metrics")

    def stop(self) -> None:
        """Ends the server, waits for its end and frees the address."""
        super().stop()
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
