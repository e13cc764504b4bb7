"""Looks up how long a job of cosched-run will probably run, and records how long it ran."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cosched.cli.run.records import records_of
from cosched.core.likeness import Likeness, PastRun, expect
from cosched.core.node.knowledge import Expectation
from cosched.core.units import NS_PER_S
from cosched.launch.job import Job
from cosched.launch.program import which
from cosched.launch.runs import add_run, read_runs, record_of_runs
from cosched.shm.paths import NodePaths

#: A record is worth no longer wait.
PATIENCE_S = 0.2


def likeness_of(job: Job) -> Likeness:
    """Returns what makes other jobs like this one."""
    path = which(job.argv[0], os.environ) or job.argv[0]
    ranks = None if job.layout is None else job.layout.ranks
    return Likeness(f"{path} {job.label}", job.argv[1:], ranks)


def expectation_of(job: Job, time_ns: int | None) -> Expectation:
    """Returns the user's own estimate ``time_ns`` if there is one, otherwise the lengths of
    earlier runs. Raises CoschedError if their record cannot be read."""
    likeness = likeness_of(job)
    if time_ns is not None:
        return Expectation(likeness.kind, (time_ns,))
    path = record_of_runs(os.environ)
    return expect(likeness, read_runs(path) if path else ())


def record_length(
    job: Job, name: str, nodes: Sequence[NodePaths], began_wall_ns: int
) -> None:
    """Records how long the job was scheduled on the node where that was longest.

    Raises CoschedError if the record cannot be written. Without a complete record of a
    daemon nothing is written."""
    path = record_of_runs(os.environ)
    if path is None:
        return
    records = records_of(nodes, name, began_wall_ns, PATIENCE_S)
    complete = [r for r in records if not r.partial and not r.released_s]
    length_ns = max((round(r.scheduled_s * NS_PER_S) for r in complete), default=0)
    if length_ns > 0:
        add_run(path, PastRun(likeness_of(job), length_ns))
