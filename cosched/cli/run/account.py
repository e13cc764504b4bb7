"""Prints how the time of a job of cosched-run was spent, when the job has ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cosched.core.errors import CoschedError
from cosched.jobs.records import records_of
from cosched.observe.history import in_words, summary
from cosched.shm.paths import NodePaths


def print_account(
    nodes: Sequence[NodePaths], job: str, began_wall_ns: int, of: int
) -> None:
    """Prints some lines on stderr about this user's ``job`` since ``began_wall_ns``.

    nodes: the job's nodes that answer here. of: the number of all its nodes.
    """
    if not nodes:
        print(
            "cosched-run: no account: none of the job's nodes can be asked from here",
            file=sys.stderr,
        )
        return
    try:
        records = records_of(nodes, job, began_wall_ns)
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
