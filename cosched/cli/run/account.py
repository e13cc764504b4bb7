"""Prints how the time of a job of cosched-run was spent, when the job has ended."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.trace.history import JobRecord
from cosched.node.sockets.client import request
from cosched.observe.history import gather, in_words, summary
from cosched.shm.paths import NodePaths, job_key

#: The kernel reports a task's end to the daemons at about the time of our own wait.
PATIENCE_S = 3.0
AWAIT_S = 0.02


def print_account(
    nodes: Sequence[NodePaths], job: str, began_wall_ns: int, of: int
) -> None:
    """Prints some lines on stderr about this user's ``job`` since ``began_wall_ns``.

    nodes: the job's nodes that can be asked from here. of: the number of all its nodes.
    """
    if not nodes:
        print(
            "cosched-run: no account: none of the job's nodes can be asked from here",
            file=sys.stderr,
        )
        return
    try:
        records = _records(nodes, job, began_wall_ns)
    except CoschedError as error:
        print(f"cosched-run: no account: {error}", file=sys.stderr)
        return
    if records:
        lines = in_words(summary(records))
        missing = of - len(records)
        if missing:
            lines.append(f"  without {missing} of {of} nodes")
        # One write, so that the ends of several jobs do not mix.
        sys.stderr.write("".join(f"cosched-run: {line}\n" for line in lines))
    else:
        print(f"cosched-run: no account: job {job} was not coscheduled", file=sys.stderr)


def _records(nodes: Sequence[NodePaths], job: str, began_wall_ns: int) -> list[JobRecord]:
    """Waits until the job has left all nodes; returns its records, one a node."""
    deadline = time.monotonic() + PATIENCE_S
    mine = job_key(os.geteuid(), job)
    while True:
        here = [paths for paths in nodes if _is_present(paths, job)]
        if not here or time.monotonic() > deadline:
            found = gather(nodes, began_wall_ns)
            return list({r.node: r for r in found if r.job == mine}.values())
        time.sleep(AWAIT_S)  # daemons do not publish a job's end


def _is_present(paths: NodePaths, job: str) -> bool:
    """Returns whether the daemon still has the job. It records a job that has left."""
    try:
        status = request(paths, "status")
    except NoDaemon:
        return False
    mine = job_key(os.geteuid(), job)
    return any(other["key"] == mine for other in status["jobs"])
