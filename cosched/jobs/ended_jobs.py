"""Asks the daemons how a job of cosched-run spent its time, when the job has ended."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cosched.core.decoding import convert
from cosched.core.errors import NoDaemon
from cosched.core.trace.job_record import JobRecord
from cosched.linux.waiting import comes_true
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths, job_key

#: The kernel reports a task's end to the daemons at about the time of our own wait.
PATIENCE_S = 3.0
AWAIT_S = 0.02


def records_of(nodes: Sequence[NodePaths], job: str, began_wall_ns: int) -> list[JobRecord]:
    """Waits until this user's job has left all nodes; returns its records, one a node.

    nodes: the job's nodes whose daemons can be reached from here.
    """
    comes_true(  # daemons do not publish a job's end
        lambda: not any(_is_present(paths, job) for paths in nodes), PATIENCE_S, AWAIT_S
    )
    found = [_record(paths, job, began_wall_ns) for paths in nodes]
    return [record for record in found if record is not None]


def _is_present(paths: NodePaths, job: str) -> bool:
    """Returns whether the daemon still has the job. It records a job that has left."""
    try:
        status = request(paths, "status")
    except NoDaemon:
        return False
    mine = job_key(os.geteuid(), job)
    return any(other["key"] == mine for other in status["jobs"])


def _record(paths: NodePaths, job: str, began_wall_ns: int) -> JobRecord | None:
    try:
        answer = request(paths, "history", since_wall_ns=began_wall_ns)
    except NoDaemon:
        return None
    mine = job_key(os.geteuid(), job)
    records: list[JobRecord] = convert(
        answer["records"], list[JobRecord], f"the history of {paths.node}"
    )
    return next((record for record in reversed(records) if record.job == mine), None)
