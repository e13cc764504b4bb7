"""``cosched queue``: shows the jobs of the domain."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cosched.cli.connection import connect, connect_to_read, rests
from cosched.cli.declared import Command, command, flag, option
from cosched.cli.domain.queue_columns import COLUMNS
from cosched.cli.options import domain_dir_option, json_option
from cosched.cli.values import Whole
from cosched.cluster.client import NoDomain
from cosched.core.counting import counted
from cosched.tables import WIDTH

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo

#: The columns without --format: those of jobs that have not ended, and of all jobs.
_USUAL = "job,name,user,nodes,ranks,state,start,end,reason"
_WITH_ENDED = "job,name,user,nodes,state,start,end,took,status,reason"
#: A longer table takes seconds and helps no one.
_ROWS_MOST = 1000
#: More jobs than a domain returns.
_ALL = 1 << 31


@command("queue")
class Queue(Command):
    """Show the jobs that wait or run in the domain.

    The start of a waiting job is an expectation, marked ~, and so is the end of a job that
    has not ended: like jobs took so long. After < is the time limit. The reason is where a
    job runs, why it failed, or why it waits: the CPUs or nodes that it needs, those that
    are free, or how many jobs came before it. cosched why JOB shows more.
    A malleable job has the number of its nodes and its bounds: 4 of 1-8. A job that shares
    its nodes has halves of them, beside the jobs with these numbers: beside 7: top n1,n2.
    A suspended job shows which job has nodes of it: for 9: n1,n2.
    The tasks of an array that wait are one line: 12_[4-100%10]. With --format:

    \b
      job name user uid nodes ranks state start end submitted began ended
      took waited status reason limit hosts array task output command cwd

    took is how long the job has run so far, or did. waited is the time from its submission
    to its start. start is when it began, or ~ when it probably begins. --csv prints each
    task of an array, times in seconds and dates in ISO 8601.

    \b
    Examples:
      cosched queue
      cosched queue --me --ended 10
      cosched queue --all --format job,name,submitted,began,ended,took,status
      cosched queue --all --csv
      cosched queue --json
    """

    everything: bool = flag("--all", help="Jobs that have ended, too.")
    ended: int | None = option(
        type=Whole(min=1),
        metavar="N",
        help="The last N jobs, too, if they have ended.",
    )
    me: bool = flag(help="Only jobs of yours.")
    format: str | None = option(metavar="A,B", help="Show these columns.")
    as_csv: bool = flag("--csv", help="Print CSV.")
    run_dir: Path = domain_dir_option()
    as_json: bool = json_option()

    def __post_init__(self) -> None:
        if self.as_csv and self.as_json:
            raise click.UsageError("--csv and --json cannot be combined.")

    def run(self) -> None:
        ended = _ALL if self.everything else self.ended or 0
        usual = _WITH_ENDED if ended else _USUAL
        columns = COLUMNS.read(usual if self.format is None else self.format)
        folded = not (self.as_csv or self.as_json)
        jobs = self._jobs(ended, folded=folded)
        if self.me:
            jobs = [job for job in jobs if job["uid"] == os.geteuid()]
        if self.as_json:
            click.echo(json.dumps({"jobs": jobs}))
        elif self.as_csv:
            names = tuple(COLUMNS.columns) if self.format is None else columns
            click.echo(COLUMNS.as_csv(names, jobs), nl=False)
        elif jobs:
            rows = shown(jobs)
            click.echo("\n".join(COLUMNS.shown(columns, rows, max(_screen(), WIDTH))))
            if len(rows) < len(jobs):
                click.echo(f"({counted(len(jobs) - len(rows), 'more job')}: --json)")
        else:
            click.echo("no jobs")

    def _jobs(self, ended: int, *, folded: bool) -> list[JobInfo]:
        """Returns the jobs of the domain; [] if the user's private domain rests and no
        ended ones are wanted."""
        reach = connect_to_read if ended else connect
        try:
            with reach(self.run_dir) as client:
                return client.queue(ended, folded=folded)
        except NoDomain:
            if ended or not rests(self.run_dir):
                raise
            return []


def _screen() -> int:
    """Returns the width of the terminal; 0 if stdout is none."""
    try:
        return os.get_terminal_size(1).columns
    except OSError:
        return 0


def shown(jobs: Sequence[JobInfo]) -> Sequence[JobInfo]:
    """Returns the jobs for the table: the first ones in the queue, and the latest of the
    others."""
    live = [job["job"] for job in jobs if job["ended_ns"] is None][:_ROWS_MOST]
    ended = [job["job"] for job in jobs if job["ended_ns"] is not None]
    kept = {*live, *ended[max(0, len(ended) + len(live) - _ROWS_MOST) :]}
    return [job for job in jobs if job["job"] in kept]
