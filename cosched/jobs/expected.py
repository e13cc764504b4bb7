"""Looks up how long a job will probably run, and records how long it ran."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from cosched.core.errors import CoschedError
from cosched.core.expectation import Likeness, PastRun, Prediction, expect
from cosched.core.units import NS_PER_S
from cosched.launch.program import which
from cosched.launch.resolved_job import ResolvedJob
from cosched.launch.run_record import add_run, read_useful_runs, record_of_runs
from cosched.rundir.paths import NodePaths

#: A record is worth no longer wait.
PATIENCE_S = 0.2


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
    from cosched.jobs.records import records_of

    records = records_of(nodes, name, began_wall_ns, PATIENCE_S)
    complete = [r for r in records if r.is_complete]
    return max((round(r.scheduled_s * NS_PER_S) for r in complete), default=0)


def _likeness_of(job: ResolvedJob) -> Likeness:
    """Returns what makes other jobs like this one."""
    path = which(job.argv[0], os.environ) or job.argv[0]
    ranks = None if job.layout is None else job.layout.ranks
    return Likeness(f"{path} {job.label}", job.argv[1:], ranks)
