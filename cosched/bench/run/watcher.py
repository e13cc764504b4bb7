"""Watches a job that runs alone: the nodes' status, several times a second.

A job's counters vanish with the job, so the last status that has it is kept.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from cosched.bench.run import daemons
from cosched.bench.run.progress import Progress
from cosched.bench.run.session import Session

LOOK_S = 0.1


class SeenEnough(Exception):
    """Ends a run at its time limit."""


class Watcher:
    """Keeps the last status of each node that has the job; none if the name is empty.

    at_most_s: from now on; ``attend`` raises SeenEnough then.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        progress: Progress,
        at_most_s: float = float("inf"),
    ) -> None:
        self._session = session
        self._name = name
        self._progress = progress
        self._end_s = time.monotonic() + at_most_s
        self.statuses: Sequence[Mapping[str, Any]] = ()

    def attend(self, _running: Sequence[str]) -> float | None:
        """Looks at the nodes; returns the seconds until the next look."""
        self._progress.redraw()
        if not self._name:
            return self._progress.redraw_s
        statuses = list(daemons.ask(self._session.launcher.site).values())
        if len(self._tasks(statuses)) >= max(1, len(self.tasks)):
            self.statuses = statuses
        if time.monotonic() >= self._end_s:
            raise SeenEnough
        return LOOK_S

    @property
    def tasks(self) -> list[Mapping[str, Any]]:
        """The tasks of the job in the status that is kept."""
        return self._tasks(self.statuses)

    @property
    def key(self) -> str:
        """The key of the job; empty if no node had it."""
        return min((job["key"] for job in self._jobs(self.statuses)), default="")

    def _jobs(self, statuses: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [job for s in statuses for job in s["jobs"] if job["name"] == self._name]

    def _tasks(self, statuses: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [task for job in self._jobs(statuses) for task in job["tasks"]]
