"""``cosched history``: shows jobs that have ended."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pwd
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cosched.cli.declared import Command, command, flag, option, part
from cosched.cli.jobs.elsewhere import elsewhere_option, way_to
from cosched.cli.jobs.records import is_job, records_elsewhere, records_here
from cosched.cli.options import (
    asked_run_dir_option,
    domain_dir,
    json_option,
    nodes_option,
)
from cosched.cli.values import Parsed
from cosched.core.bounds import UID_MOST
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.labels import WRONG_RUNS
from cosched.core.trace.job_record import JobRecord
from cosched.core.units import NS_PER_S, parse_duration
from cosched.launch.environment import name_on_nodes
from cosched.observe.history_columns import HISTORY
from cosched.observe.job_summary import (
    JobSummary,
    document,
    resized_summary,
    runs,
    summary,
)
from cosched.observe.label_effects import label_rows, label_table
from cosched.observe.reach.ways import Way

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo

#: The columns without --format.
_USUAL = "ended,job,nodes,response,expected,ran,together,alone,cpu"


#: Jobs of the domain that may have been resized: more do not fit into an answer.
_LATEST = 2000


def _number_of_jobs(text: str, what: str) -> int:
    """Reads a number of at least 1; for a time, suggests --since."""
    if is_whole(text, 1):
        return parse_integer(text, what, 1, (1 << 63) - 1)
    with contextlib.suppress(CoschedError):
        parse_duration(text, what)
        raise click.BadParameter(f"'{text}' is a time; write --since {text}.")
    raise click.BadParameter(f"'{text}' is not a number of jobs.")


@dataclass(frozen=True)
class Selection:
    """The options that select jobs which have ended; without any: all jobs."""

    job: str | None = option(help="Only jobs of this name or program, or UID.NAME.")
    users: str | None = option(
        "-u", "--user", metavar="A,B", help="Only jobs of these users."
    )
    me: bool = flag(help="Only jobs of yours.")
    nodes: tuple[str, ...] = nodes_option()
    since: str = option(
        default="30d",
        metavar="TIME",
        help="Only jobs that ended after TIME: 30m, 2h, 7d ago, or a date.",
    )
    until: str | None = option(metavar="TIME", help="Only jobs that ended before TIME.")

    def __post_init__(self) -> None:
        if self.me and self.users:
            raise click.UsageError("--me and --user cannot be combined.")

    def none_in(self, run_dir: Path) -> str:
        """Returns a line that no such job has ended."""
        name = f" of the name {self.job}" if self.job else ""
        users = f" of {self.users}" if self.users else ""
        times = f"--since {self.since}" + (f" --until {self.until}" if self.until else "")
        return f"no job{name}{users} has ended in {run_dir} ({times})"

    def read(self, run_dir: Path, way: Way | None) -> list[JobSummary]:
        """Returns these jobs, in the order in which they ended; with a way, those of its
        nodes."""
        now_ns = time.time_ns()
        since_ns = _moment("--since", self.since, now_ns)
        until_ns = _moment("--until", self.until, now_ns) if self.until else now_ns
        if until_ns < since_ns:
            raise CoschedError(f"--until: {self.until} is before --since {self.since}")
        uids = {os.geteuid()} if self.me else _uids(self.users)
        if way is None:
            records = records_here(run_dir, self.nodes, since_ns)
        else:
            records = records_elsewhere(way, self.job, since_ns)
        kept = [each for each in records if not uids or each.uid in uids]
        jobs = _malleable_jobs(run_dir) if kept else {}
        found = (_sum_of(run, jobs) for run in runs(filter(self._has, kept), jobs))
        ended = [one for one in found if one and one.ended_wall_ns <= until_ns]
        return sorted(ended, key=lambda one: one.ended_wall_ns)

    def _has(self, record: JobRecord) -> bool:
        named = self.job is None or is_job(record, self.job)
        return named and (not self.nodes or record.node in self.nodes)


@command("history")
class History(Command):
    """Show jobs that have ended, and how their time was spent.

    A job that shares its CPUs has no run time of its own. The columns:

    \b
      response   from the job's start to its end (sacct: elapsed)
      expected   how long it was expected to be scheduled, from earlier runs
      ran        how long it was scheduled (the mean of its nodes)
      together   the part of that in which it was scheduled on all nodes at once
      alone~     an estimate of its time alone: scheduled on all its nodes
      CPU        the CPU time of all its processes

    * after the name: the daemon saw only a part of the job. Users see their own jobs,
    root sees all. With --format:

    \b
      job key user uid ranks nodes nodehours changes nodelist began ended
      response expected ran unscheduled suspended detached together alone cpu
      switches granted refused trapped exit
      startup waits filled filledby fills
      label limit beside rested gaveway

    nodehours is the time of its nodes, added up. changes is how often the domain's queue
    changed the size of a malleable job. startup is the time from the command to the job's
    start. unscheduled is the time in which other jobs had the CPUs. waits are those of its
    ranks in its own turns, and filled the part in which other jobs (filledby) used the
    CPUs; fills are the jobs whose waits it filled. exit is ok if all ranks came to
    MPI_Finalize, or '2 died'. The words start, end, elapsed, scheduled of sacct are
    understood. --csv prints times in seconds and dates in ISO 8601.

    Of jobs that share nodes: label is what the user named as the limit, and what was seen
    of that. limit is what the job did most of the time. beside is its speed beside others,
    as a part of its speed alone. rested and gaveway are the times in which it rested for
    others. With --labels a program is one line: its label, what limited its last run, the
    runs that were judged, how often the label was right, and the last runs in a row in
    which it was wrong. After three of these what was found counts in its place.

    \b
    Examples:
      cosched history
      cosched history --job lu --since 2h
      cosched history -u anna --since 2026-11-01 --csv
      cosched history --me --format job,ranks,elapsed,ran,unscheduled,exit
      cosched history --format job,nodes,nodehours,changes
      cosched history --labels
      cosched history --json
    """

    run_dir: Path = asked_run_dir_option()
    selection: Selection = part(Selection)
    hosts: tuple[str, ...] = elsewhere_option()
    last: int = option(
        type=Parsed("N", _number_of_jobs),
        default="30",
        help="At most the last N jobs; --json and --csv have all.",
    )
    format: str | None = option(metavar="A,B", help="Show these columns.")
    labels: bool = flag(help="List what was seen of users' labels, by program.")
    as_csv: bool = flag("--csv", help="Print CSV.")
    as_json: bool = json_option()

    def __post_init__(self) -> None:
        if self.as_csv and (self.as_json or self.labels):
            other = "--json" if self.as_json else "--labels"
            raise click.UsageError(f"--csv and {other} cannot be combined.")

    def run(self) -> None:
        columns = HISTORY.read(_USUAL if self.format is None else self.format)
        wanted = self.selection
        way = way_to(wanted.job, self.hosts, self.run_dir, wanted.nodes)
        found = wanted.read(self.run_dir, way)
        if self.labels:
            self._list_labels(found)
        elif self.as_json:
            click.echo(json.dumps({"jobs": [document(one) for one in found]}, indent=2))
        elif self.as_csv:
            names = tuple(HISTORY.columns) if self.format is None else columns
            click.echo(HISTORY.as_csv(names, found), nl=False)
        elif found:
            lines = HISTORY.shown(columns, found[-self.last :])
            if len(found) > self.last:
                lines.insert(1, f"({len(found) - self.last} earlier; --last, --json)")
            click.echo("\n".join(lines))
        else:
            raise CoschedError(wanted.none_in(self.run_dir))

    def _list_labels(self, found: Sequence[JobSummary]) -> None:
        rows = label_rows(found, WRONG_RUNS)
        if self.as_json:
            click.echo(json.dumps({"labels": rows}, indent=2))
        elif rows:
            click.echo("\n".join(label_table(rows)))
        else:
            raise CoschedError(
                "no label of an ended job was checked here; name what limits a job with "
                "COSCHED_LIMITED_BY, and let it run for a while"
            )


def _malleable_jobs(run_dir: Path) -> dict[str, JobInfo]:
    """Returns the latest malleable jobs of the domain, by their names on nodes; {} if no
    domain answers."""
    from cosched.cli.connection import AT_THE_PROMPT, connect_to_running

    try:
        with connect_to_running(domain_dir(run_dir), AT_THE_PROMPT) as client:
            jobs = client.queue(_LATEST)
    except CoschedError:
        return {}
    return {
        name_on_nodes(job["name"], job["job"]): job
        for job in jobs
        if job["resized"] is not None
    }


def _sum_of(
    run: Sequence[JobRecord], malleable: Mapping[str, JobInfo]
) -> JobSummary | None:
    """Sums up a run; None for a malleable job that goes on, without nodes that it left."""
    job = malleable.get(run[0].name)
    if job is None or job["resized"] is None:
        return summary(run)
    last_ns = max(record.ended_wall_ns for record in run)
    if job["ended_ns"] is None and last_ns >= (job["started_ns"] or math.inf):
        return None
    return resized_summary(run, job["resized"])


def _moment(option: str, text: str, now_ns: int) -> int:
    """Reads ``2h`` (so long ago) or a local date such as 2026-11-24T08:30; in ns since
    1970."""
    with contextlib.suppress(CoschedError):
        return now_ns - parse_duration(text, option)
    try:
        return round(datetime.fromisoformat(text).timestamp() * NS_PER_S)
    except (ValueError, OverflowError):
        raise CoschedError(
            f"{option}: '{text}' is neither a duration, such as 2h or 7d, nor a date, such "
            "as 2026-11-24 or 2026-11-24T08:30"
        ) from None


def _uids(users: str | None) -> set[int]:
    """Returns the numbers of users that are named, with commas between them."""
    return {_uid(word.strip()) for word in users.split(",")} if users else set()


def _uid(text: str) -> int:
    if is_whole(text, most=UID_MOST):
        return parse_integer(text, "--user", 0, UID_MOST)
    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError:
        raise CoschedError(f"--user: no user '{text}' on this machine") from None
