"""Looks up how long a job will probably run, and records how long it ran."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.expectation import Likeness, PastRun, Prediction, expect
from cosched.launch.program import which
from cosched.launch.resolved_job import ResolvedJob
from cosched.launch.run_record import add_run, read_useful_runs, record_of_runs
from cosched.linux.waiting import comes_true
from cosched.node.sockets.client import ControlClient
from cosched.rundir.paths import NodePaths

#: A record is worth no longer wait.
PATIENCE_S = 0.2
#: The kernel reports the ends of tasks to the daemon at about the time of our own wait.
AWAIT_S = 0.001


class Lengths:
    """The user's record of how long jobs were scheduled.

    The first problem with the record is reported by ``warn``; then it is not used."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._path = record_of_runs(os.environ)
        self._warn = warn

    def expectation(self, job: ResolvedJob, time_ns: int | None) -> Prediction:
        """Returns the user's estimate ``time_ns`` if there is one, otherwise the lengths of
        earlier runs."""
        likeness = _likeness_of(job)
        if time_ns is not None:
            return Prediction(likeness.kind, (time_ns,))
        return expect(likeness, self._runs(likeness))

    def _runs(self, like: Likeness) -> Sequence[PastRun]:
        try:
            return read_useful_runs(self._path, like) if self._path else ()
        except CoschedError as error:
            self._give_up(error)
            return ()

    def add(
        self, job: ResolvedJob, name: str, nodes: Sequence[NodePaths], began_wall_ns: int
    ) -> None:
        """Records how long the job was scheduled on the node where that was longest.

        Without a complete record of a daemon it records nothing."""
        if self._path is None:
            return
        try:
            length_ns = _length_ns(name, nodes, began_wall_ns)
            if length_ns:
                add_run(self._path, PastRun(_likeness_of(job), length_ns))
        except CoschedError as error:
            self._give_up(error)

    def _give_up(self, error: CoschedError) -> None:
        self._path = None
        self._warn(f"{error}; later runs do not learn from this one")


def _length_ns(name: str, nodes: Sequence[NodePaths], began_wall_ns: int) -> int:
    """Returns the greatest length on a node; 0 if no daemon has a complete record."""
    lengths_ns = (_length_on(paths, name, began_wall_ns) for paths in nodes)
    return max(filter(None, lengths_ns), default=0)


def _length_on(paths: NodePaths, name: str, began_wall_ns: int) -> int | None:
    """Waits until the job has left the node; returns how long it was scheduled there."""
    with suppress(NoDaemon), ControlClient(paths) as client:
        found: dict[str, Any] = {}

        def has_left() -> bool:
            found.update(client.request("length", job=name, since_wall_ns=began_wall_ns))
            return not found["running"]

        if comes_true(has_left, PATIENCE_S, AWAIT_S):  # daemons do not publish a job's end
            length_ns: int | None = found["length_ns"]
            return length_ns
    return None


def _likeness_of(job: ResolvedJob) -> Likeness:
    """Returns what makes other jobs like this one."""
    path = which(job.argv[0], os.environ) or job.argv[0]
    ranks = None if job.layout is None else job.layout.ranks
    return Likeness(f"{path} {job.label}", job.argv[1:], ranks)
