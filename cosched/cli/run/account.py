"""Prints how the time of a job of cosched-run was spent, when the job has ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cosched.cli.jobs.records import records_elsewhere
from cosched.core.errors import CoschedError
from cosched.jobs.ended_jobs import records_of
from cosched.observe.job_summary import in_words, summary
from cosched.observe.reach.ways import Way
from cosched.rundir.paths import NodePaths


def print_account(
    nodes: Sequence[NodePaths],
    way: Way | None,
    job: str,
    began_wall_ns: int,
    of: int,
) -> None:
    """Prints some lines on stderr about this user's ``job`` since ``began_wall_ns``.

    nodes: the job's nodes that answer here. way: the way to its nodes if they are other
    ones. of: the number of all its nodes.
    """
    if not nodes and way is None:
        print(
            "cosched-run: no account: none of the job's nodes can be asked from here",
            file=sys.stderr,
        )
        return
    try:
        if way is None:
            records = records_of(nodes, job, began_wall_ns)
        else:
            records = records_elsewhere(way, job, began_wall_ns)
    except CoschedError as error:
        print(f"cosched-run: no account: {error}", file=sys.stderr)
        return
    if records:
        lines = in_words(summary(records))
        missing = of - len(records)
        if missing > 0:
            known = {record.node for record in records}
            silent = [node for node in way.nodes if node not in known] if way else []
            names = f": {', '.join(silent[:8])}" if silent else ""
            lines.append(f"  without {missing} of {of} nodes{names}")
        # One write, so that the ends of several jobs do not mix.
        sys.stderr.write("".join(f"cosched-run: {line}\n" for line in lines))
    else:
        print_none(job)


def print_none(job: str) -> None:
    """Prints on stderr that a job has no account."""
    print(f"cosched-run: no account: job {job} was not coscheduled", file=sys.stderr)
