"""Takes the samples of ``cosched top`` from the daemons."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.node.sockets.client import ControlClient, ask_each
from cosched.observe.status import no_daemons
from cosched.observe.top.model import WINDOW_NS
from cosched.observe.top.sample import Sample, Status
from cosched.rundir.paths import NodePaths


class Sampler:
    """Samples the named nodes, or all nodes that are up in the run directory.

    It keeps its connections, so a daemon wakes once a sample and not three times. Any
    thread may call it. A context manager closes the connections.
    """

    def __init__(self, run_dir: Path, nodes: Sequence[str] = ()) -> None:
        self._run_dir = run_dir
        self._nodes = nodes
        self._clients: dict[str, ControlClient] = {}
        self._looking = threading.Lock()

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._looking:
            for node in list(self._clients):
                self._hang_up(node)

    def look(self, window_ns: int = WINDOW_NS) -> Sample:
        """Takes a sample. window_ns: the intervals of jobs reach back for this time.

        Raises NoDaemon if a named node, or every node, is down."""
        since_ns = time.time_ns() - window_ns
        ask = partial(self._ask, since_ns)
        with self._looking:
            found = [one for _, one in ask_each(self._run_dir, self._nodes, ask)]
        if not found:
            raise no_daemons(self._run_dir, os.geteuid())
        return Sample(time.monotonic(), time.time_ns(), found)

    def _ask(self, since_ns: int, paths: NodePaths) -> Status:
        client = self._clients.get(paths.node)
        if client is not None:
            try:
                return client.request("status", since_wall_ns=since_ns, memory=False)
            except CoschedError:
                self._hang_up(paths.node)  # the daemon may have been replaced
        client = self._clients[paths.node] = ControlClient(paths)
        return client.request("status", since_wall_ns=since_ns, memory=False)

    def _hang_up(self, node: str) -> None:
        self._clients.pop(node).close()


def sample(run_dir: Path, nodes: Sequence[str] = ()) -> Sample:
    """Takes one sample on new connections."""
    with Sampler(run_dir, nodes) as sampler:
        return sampler.look()
