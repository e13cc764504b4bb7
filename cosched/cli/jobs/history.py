"""``cosched history``: shows jobs that have ended."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from cosched.cli.options import asked_run_dir_option, json_option, nodes_option
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S, parse_duration
from cosched.node.records.history import state_directory
from cosched.observe.history import (
    JobSummary,
    document,
    gather,
    runs,
    saved_places,
    summary,
)
from cosched.shm.paths import NodePaths, default_run_dir
from cosched.shm.userdirs import SYSTEM_RUN_DIR
from cosched.tables import table

_COLUMNS = (
    *("ended", "job", "nodes", "response"),
    *("expected", "ran", "together", "alone~", "CPU"),
)


def _number_of_jobs(_: click.Context, __: click.Parameter, text: str) -> int:
    """Reads a number of at least 1; for a time, suggests --since."""
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    with contextlib.suppress(CoschedError):
        parse_duration(text, "--last")
        raise click.BadParameter(f"'{text}' is a time; write --since {text}.")
    raise click.BadParameter(f"'{text}' is not a number of jobs.")


@click.command("history")
@asked_run_dir_option
@click.option("--job", help="Only jobs of this name, or UID.NAME.")
@nodes_option
@click.option(
    "--since",
    default="30d",
    metavar="TIME",
    help="Only jobs that ended in the last TIME: 30m, 2h, 7d.",
)
@click.option(
    "--last",
    callback=_number_of_jobs,
    default="30",
    metavar="N",
    help="At most the last N jobs; --json has all.",
)
@json_option
def command(
    run_dir: Path,
    job: str | None,
    nodes: tuple[str, ...],
    since: str,
    last: int,
    as_json: bool,
) -> None:
    """Show jobs that have ended, and how their time was spent.

    A job that shares its CPUs has no run time of its own. The columns:

    \b
      response   from the job's start to its end
      expected   how long it was expected to be scheduled, from earlier runs
      ran        how long it was scheduled (the mean of its nodes)
      together   the part of that in which it was scheduled on all nodes at once
      alone~     an estimate of its time alone: scheduled on all its nodes
      CPU        the CPU time of all its processes

    * after the name: the daemon saw only a part of the job. Users see their own jobs,
    root sees all.

    \b
    Examples:
      cosched history
      cosched history --job lu --since 2h
      cosched history --json
    """
    since_wall_ns = time.time_ns() - parse_duration(since, "--since")
    usual = run_dir in (default_run_dir({}, os.geteuid()), SYSTEM_RUN_DIR)
    saved = saved_places(state_directory(os.environ)) if usual else []
    records = gather(_places(run_dir, nodes), since_wall_ns, saved)
    kept = [
        record
        for record in records
        if job in (None, record.name, record.job) and (not nodes or record.node in nodes)
    ]
    found = sorted((summary(run) for run in runs(kept)), key=lambda s: s.ended_wall_ns)
    if as_json:
        click.echo(json.dumps({"jobs": [document(one) for one in found]}, indent=2))
    elif found:
        click.echo(_table(found, last))
    else:
        which = f" of the name {job}" if job else ""
        raise CoschedError(f"no job{which} has ended in {run_dir} in the last {since}")


def _places(run_dir: Path, nodes: Sequence[str]) -> list[NodePaths]:
    names = nodes or sorted(path.name for path in run_dir.glob("*/") if path.is_dir())
    return [NodePaths(run_dir, name) for name in names]


def _table(found: Sequence[JobSummary], last: int) -> str:
    lines = table(_COLUMNS, map(_row, found[-last:]), "><>>>>>>>", gap=1)
    if len(found) > last:
        lines.insert(1, f"({len(found) - last} earlier; --last, --json)")
    return "\n".join(lines)


def _row(one: JobSummary) -> tuple[str, ...]:
    ended = datetime.fromtimestamp(one.ended_wall_ns / NS_PER_S).astimezone()
    name = one.name if one.uid == os.geteuid() else one.job
    return (
        f"{ended:%m-%d %H:%M:%S}",
        name + ("*" if one.partial else ""),
        str(len(one.nodes)),
        _time(one.response_s),
        "-" if one.expected_s is None else _time(one.expected_s),
        _time(one.scheduled_s),
        "-" if one.together is None else f"{one.together:.0%}",
        _time(one.alone_s),
        "-" if one.cpu_s is None else _time(one.cpu_s),
    )


def _time(seconds: float) -> str:
    """Formats a time in at most seven characters."""
    if seconds < 100:
        return f"{seconds:.2f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"
