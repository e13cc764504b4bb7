"""Samples for ``cosched top``, and what it says of one job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.node.client import NoDaemon, nodes_in, request
from cosched.observe.top_model import WINDOW_NS, Sample
from cosched.shm.paths import NodePaths


def sample(run_dir: Path, nodes: Sequence[str] = ()) -> Sample:
    """The status of the named nodes, or of all that are up in the run directory.

    NoDaemon if a named node is not up, or none is.
    """
    since_ns = time.time_ns() - WINDOW_NS
    found = []
    for paths in [NodePaths(run_dir, node) for node in nodes] or nodes_in(run_dir):
        try:
            found.append(request(paths, "status", since_wall_ns=since_ns))
        except NoDaemon:
            if nodes:
                raise
    if not found:
        raise NoDaemon(f"no daemons are up in {run_dir}; start them: cosched up")
    return Sample(time.monotonic(), time.time_ns(), found)


def check_interval(interval_s: float) -> float:
    """The interval if it leaves the daemons their time, else CoschedError."""
    if not 0.2 <= interval_s <= 3600:
        raise CoschedError(f"interval {interval_s:g}: must be 0.2 to 3600 seconds")
    return interval_s
