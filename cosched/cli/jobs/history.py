"""``cosched history``: shows jobs that have ended."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from cosched.cli.jobs.elsewhere import elsewhere_option, way_to
from cosched.cli.jobs.records import records_elsewhere, records_here
from cosched.cli.options import asked_run_dir_option, json_option, nodes_option
from cosched.core.errors import CoschedError
from cosched.core.trace.history import JobRecord
from cosched.core.units import NS_PER_S, parse_duration
from cosched.observe.columns import COLUMNS, as_csv, read_columns, shown
from cosched.observe.history import JobSummary, document, runs, summary
from cosched.observe.reach.ways import Way

#: The columns without --format.
_USUAL = "ended,job,nodes,response,expected,ran,together,alone,cpu"


def _number_of_jobs(_: click.Context, __: click.Parameter, text: str) -> int:
    """Reads a number of at least 1; for a time, suggests --since."""
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    with contextlib.suppress(CoschedError):
        parse_duration(text, "--last")
        raise click.BadParameter(f"'{text}' is a time; write --since {text}.")
    raise click.BadParameter(f"'{text}' is not a number of jobs.")


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
    if text.isdecimal():
        return int(text)
    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError:
        raise CoschedError(f"--user: no user '{text}' on this machine") from None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The jobs that the options select. Without ``uids`` or ``nodes``: all jobs."""

    job: str | None
    uids: frozenset[int]
    nodes: Sequence[str]
    since_wall_ns: int
    until_wall_ns: int

    def read(self, run_dir: Path, way: Way | None) -> list[JobSummary]:
        """Returns these jobs, in the order in which they ended; with a way, those of its
        nodes."""
        if way is None:
            records = records_here(run_dir, self.nodes, self.since_wall_ns)
        else:
            records = records_elsewhere(way, self.job, self.since_wall_ns)
        kept = filter(self._has, records)
        found = sorted(map(summary, runs(kept)), key=lambda one: one.ended_wall_ns)
        return [one for one in found if one.ended_wall_ns <= self.until_wall_ns]

    def _has(self, record: JobRecord) -> bool:
        return (
            self.job in (None, record.name, record.job)
            and (not self.nodes or record.node in self.nodes)
            and (not self.uids or record.uid in self.uids)
        )


@click.command("history")
@asked_run_dir_option
@click.option("--job", help="Only jobs of this name, or UID.NAME.")
@click.option("-u", "--user", "users", metavar="A,B", help="Only jobs of these users.")
@click.option("--me", is_flag=True, help="Only jobs of yours.")
@nodes_option
@elsewhere_option
@click.option(
    "--since",
    default="30d",
    metavar="TIME",
    help="Only jobs that ended after TIME: 30m, 2h, 7d ago, or a date.",
)
@click.option("--until", metavar="TIME", help="Only jobs that ended before TIME.")
@click.option(
    "--last",
    callback=_number_of_jobs,
    default="30",
    metavar="N",
    help="At most the last N jobs; --json and --csv have all.",
)
@click.option("--format", "format_", metavar="A,B", help="Show these columns.")
@click.option("--csv", "in_csv", is_flag=True, help="Print CSV.")
@json_option
def command(
    run_dir: Path,
    job: str | None,
    users: str | None,
    me: bool,
    nodes: tuple[str, ...],
    hosts: tuple[str, ...],
    since: str,
    until: str | None,
    last: int,
    format_: str | None,
    in_csv: bool,
    as_json: bool,
) -> None:
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
      job key user uid ranks nodes nodelist began ended
      response expected ran waited suspended detached together alone cpu
      switches granted refused trapped exit

    waited is the time in which other jobs had the CPUs. exit is ok if all ranks came to
    MPI_Finalize, or '2 died'. The words start, end, elapsed, scheduled of sacct are
    understood. --csv prints times in seconds and dates in ISO 8601.

    \b
    Examples:
      cosched history
      cosched history --job lu --since 2h
      cosched history -u anna --since 2026-11-01 --csv
      cosched history --me --format job,ranks,elapsed,ran,waited,exit
      cosched history --json
    """
    if in_csv and as_json:
        raise click.UsageError("--csv and --json cannot be combined.")
    if me and users:
        raise click.UsageError("--me and --user cannot be combined.")
    columns = read_columns(_USUAL if format_ is None else format_)
    now_ns = time.time_ns()
    wanted = _Wanted(
        job,
        frozenset({os.geteuid()} if me else _uids(users)),
        nodes,
        _moment("--since", since, now_ns),
        now_ns if until is None else _moment("--until", until, now_ns),
    )
    if wanted.until_wall_ns < wanted.since_wall_ns:
        raise CoschedError(f"--until: {until} is before --since {since}")
    way = None if nodes else way_to(job, hosts)
    found = wanted.read(run_dir, way)
    if as_json:
        click.echo(json.dumps({"jobs": [document(one) for one in found]}, indent=2))
    elif in_csv:
        click.echo(as_csv(tuple(COLUMNS) if format_ is None else columns, found), nl=False)
    elif found:
        lines = shown(columns, found[-last:])
        if len(found) > last:
            lines.insert(1, f"({len(found) - last} earlier; --last, --json)")
        click.echo("\n".join(lines))
    else:
        which = f" of the name {job}" if job else ""
        which += f" of {users}" if users else ""
        times = f"--since {since}" + (f" --until {until}" if until else "")
        raise CoschedError(f"no job{which} has ended in {run_dir} ({times})")
