"""``cosched history``: shows jobs that have ended."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import click

from cosched.cli.declared import Command, command, flag, option, part
from cosched.cli.jobs.elsewhere import elsewhere_option, way_to
from cosched.cli.jobs.ended import Selection
from cosched.cli.options import asked_run_dir_option, json_option
from cosched.cli.values import Parsed
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.units import parse_duration
from cosched.observe.columns import COLUMNS, as_csv, read_columns, shown
from cosched.observe.job_summary import document

#: The columns without --format.
_USUAL = "ended,job,nodes,response,expected,ran,together,alone,cpu"


def _number_of_jobs(text: str, what: str) -> int:
    """Reads a number of at least 1; for a time, suggests --since."""
    if is_whole(text, 1):
        return parse_integer(text, what, 1, (1 << 63) - 1)
    with contextlib.suppress(CoschedError):
        parse_duration(text, what)
        raise click.BadParameter(f"'{text}' is a time; write --since {text}.")
    raise click.BadParameter(f"'{text}' is not a number of jobs.")


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

    run_dir: Path = asked_run_dir_option()
    selection: Selection = part(Selection)
    hosts: tuple[str, ...] = elsewhere_option()
    last: int = option(
        type=Parsed("N", _number_of_jobs),
        default="30",
        help="At most the last N jobs; --json and --csv have all.",
    )
    format: str | None = option(metavar="A,B", help="Show these columns.")
    as_csv: bool = flag("--csv", help="Print CSV.")
    as_json: bool = json_option()

    def __post_init__(self) -> None:
        if self.as_csv and self.as_json:
            raise click.UsageError("--csv and --json cannot be combined.")

    def run(self) -> None:
        columns = read_columns(_USUAL if self.format is None else self.format)
        wanted = self.selection
        way = None if wanted.nodes else way_to(wanted.job, self.hosts, self.run_dir)
        found = wanted.read(self.run_dir, way)
        if self.as_json:
            click.echo(json.dumps({"jobs": [document(one) for one in found]}, indent=2))
        elif self.as_csv:
            names = tuple(COLUMNS) if self.format is None else columns
            click.echo(as_csv(names, found), nl=False)
        elif found:
            lines = shown(columns, found[-self.last :])
            if len(found) > self.last:
                lines.insert(1, f"({len(found) - self.last} earlier; --last, --json)")
            click.echo("\n".join(lines))
        else:
            raise CoschedError(wanted.none_in(self.run_dir))
