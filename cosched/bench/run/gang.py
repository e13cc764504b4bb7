"""The yardstick: one driver that sees all nodes switches them together.

What nobody has on a real cluster: who runs is decided in one place, at one moment, for all
nodes at once, and no message has to tell. The nodes' daemons only carry it out, as they do
their own switches, so that what remains between this arm and ``cosched`` is the price of
deciding without a centre.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from cosched.bench.run.site import Site
from cosched.node.sockets.client import request
from cosched.shm.paths import NodePaths, job_key

#: How soon a job that has not registered everywhere yet is offered its turn again.
RETRY_S = 0.05


class Gang:
    """Gives each running job its turn, a slice at a time, in the order they started in."""

    def __init__(self, site: Site, slice_s: float) -> None:
        self._nodes = [NodePaths(site.run_dir, host) for host in site.hosts]
        self._slice_s = slice_s
        self._turn: str | None = None
        self._whole = True  # its turn is a slice, not one cut short
        self._ends_s = 0.0

    def attend(self, running: Sequence[str]) -> float | None:
        """Switches if it is time to; seconds until it wants to be asked again."""
        now_s = time.monotonic()
        if self._turn in running and now_s < self._ends_s:
            return self._ends_s - now_s
        for job in self._next(running):
            given = [self._give(paths, job) for paths in self._nodes]
            if any(given):
                self._turn, self._whole = job, all(given)
                self._ends_s = now_s + (self._slice_s if self._whole else RETRY_S)
                return self._ends_s - now_s
        return RETRY_S if running else None

    def _next(self, running: Sequence[str]) -> list[str]:
        """Whose turn it is, best first. A turn cut short by ``RETRY_S`` goes on."""
        if self._turn not in running:
            return list(running)
        first = running.index(self._turn) + self._whole
        return [*running[first:], *running[:first]]

    def _give(self, paths: NodePaths, job: str) -> bool:
        answer = request(paths, "turn", job=job_key(os.getuid(), job))
        return bool(answer["given"])
