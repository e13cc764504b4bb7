"""Drives the arm ``gang``: one process switches all nodes at the same moment.

This arm is the reference. A real cluster has no such central view: one place chooses the
job that runs next on all nodes, without messages. The nodes' daemons carry out the switches
as they do their own. So the difference between ``gang`` and ``cosched`` is the price of
deciding without a centre.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from cosched.bench.run.site import Site
from cosched.node.sockets.client import request
from cosched.shm.paths import NodePaths, job_key

#: The pause before a job that is not registered on all nodes gets its turn again.
RETRY_S = 0.05


class Gang:
    """Gives each running job one slice, in the order in which the jobs started."""

    def __init__(self, site: Site, slice_s: float) -> None:
        self._nodes = [NodePaths(site.run_dir, host) for host in site.hosts]
        self._slice_s = slice_s
        self._turn: str | None = None
        self._whole = True  # the turn lasts a whole slice
        self._ends_s = 0.0

    def attend(self, running: Sequence[str]) -> float | None:
        """Switches if it is time to; returns the seconds until the next call."""
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
        """Returns the jobs in order of their turns. A turn shorter than a slice goes on."""
        if self._turn not in running:
            return list(running)
        first = running.index(self._turn) + self._whole
        return [*running[first:], *running[:first]]

    def _give(self, paths: NodePaths, job: str) -> bool:
        answer = request(paths, "turn", job=job_key(os.getuid(), job))
        return bool(answer["given"])
