"""Drives the arm ``gang``: one process switches all nodes at the same moment.

This arm is the reference. A real cluster has no such central view: one place chooses the
job that runs next on all nodes, without messages. The nodes' daemons carry out the switches
as they do their own. So the difference between ``gang`` and ``cosched`` is the price of
deciding without a centre.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence

from cosched.bench.run.daemons import paths_of
from cosched.bench.run.site import Site
from cosched.node.sockets.client import request
from cosched.rundir.paths import job_key

#: The pause before a job that is not registered on all nodes gets its turn again.
RETRY_S = 0.05


class Gang:
    """Gives each row of the running jobs one slice, in the order in which the jobs started.

    A row is a job and others whose nodes it leaves free (Ousterhout's matrix). ``hosts_of``
    returns the nodes of a job.
    """

    def __init__(
        self, site: Site, slice_s: float, hosts_of: Callable[[str], Collection[str]]
    ) -> None:
        self._site = site
        self._slice_s = slice_s
        self._hosts_of = hosts_of
        self._row: list[str] = []
        self._whole = True  # the turn lasts a whole slice
        self._ends_s = 0.0

    def attend(self, running: Sequence[str]) -> float | None:
        """Switches if it is time to; returns the seconds until the next call."""
        now_s = time.monotonic()
        last, over = self._row, now_s >= self._ends_s
        left = [] if over else [job for job in last if job in running]
        if left and left == last:
            return self._ends_s - now_s
        order = self._next(running)
        self._row = [*left]
        given = [self._try(job) for job in order]
        if not self._row:
            self._row = last
            return RETRY_S if running else None
        if not left:  # a new turn
            self._whole = False not in given
            self._ends_s = now_s + (self._slice_s if self._whole else RETRY_S)
        return self._ends_s - now_s

    def _next(self, running: Sequence[str]) -> list[str]:
        """Returns the jobs in order of their turns. A turn shorter than a slice goes on."""
        if not self._row or self._row[0] not in running:
            return list(running)
        first = running.index(self._row[0]) + self._whole
        order = [*running[first:], *running[:first]]
        return sorted(order, key=lambda job: job in self._row) if self._whole else order

    def _try(self, job: str) -> bool | None:
        """Gives the job a turn and adds it to the row, if the row leaves its nodes free and
        a node knows the job. Returns whether all its nodes know it; None without a turn."""
        hosts = self._hosts_of(job)
        if any(not set(hosts).isdisjoint(self._hosts_of(other)) for other in self._row):
            return None
        given = [self._give(host, job) for host in hosts]
        if not any(given):
            return None
        self._row.append(job)
        return all(given)

    def _give(self, host: str, job: str) -> bool:
        paths = paths_of(self._site, host)
        answer = request(paths, "turn", job=job_key(os.getuid(), job))
        return bool(answer["given"])
