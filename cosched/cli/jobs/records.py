"""Prints the records of a job's runs on this node as JSON, for a command on another node.

It is no command for users: ``python -m cosched.cli.jobs.records --job NAME --node .``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from cosched.cli.declared import Command, command, option
from cosched.cli.entry import run_cli
from cosched.cli.jobs.elsewhere import ask_elsewhere
from cosched.cli.options import asked_run_dir_option, json_option, nodes_option
from cosched.core.decoding import convert
from cosched.core.trace.job_record import JobRecord
from cosched.launch.environment import is_run_of
from cosched.linux.homes import state_directory
from cosched.observe.job_summary import gather, saved_places
from cosched.observe.reach.ways import Way
from cosched.rundir.directories import SITE_STATE, SYSTEM_RUN_DIR
from cosched.rundir.paths import NodePaths, default_run_dir

_MODULE = "cosched.cli.jobs.records"


def records_here(
    run_dir: Path, nodes: Sequence[str], since_wall_ns: int
) -> list[JobRecord]:
    """Returns the records of these nodes of a run directory (none named: all), and those
    that were saved."""
    names = nodes or sorted(p.name for p in run_dir.glob("*/") if p.is_dir())
    usual = run_dir in (default_run_dir({}, os.geteuid()), SYSTEM_RUN_DIR)
    saved = saved_places(state_directory(os.environ)) if usual else []
    saved += saved_places(SITE_STATE) if run_dir == SYSTEM_RUN_DIR else []
    places = [NodePaths(run_dir, name) for name in names]
    return gather(places, since_wall_ns, _complain, saved)


def is_job(record: JobRecord, asked: str) -> bool:
    """Returns whether a record is of the job that a user names: by the name that the user
    gave it, by its name on nodes, or by UID.NAME."""
    return record.job == asked or is_run_of(record.name, asked)


def _complain(line: str) -> None:
    click.echo(f"cosched: warning: {line}", err=True)


def records_elsewhere(way: Way, job: str | None, since_wall_ns: int) -> list[JobRecord]:
    """Returns the job's records on the nodes of the way that answer; all jobs' for None."""
    words = ["--since-ns", str(since_wall_ns), *(["--job", job] if job else [])]
    answers = ask_elsewhere(way, words, module=_MODULE)
    lists = [answer.found.get("records", []) for answer in answers]
    what = "a record of another host"
    return [convert(one, JobRecord, what) for found in lists for one in found]


@command("records", hidden=True)
class Records(Command):
    """Print the records of a job's runs on some nodes."""

    run_dir: Path = asked_run_dir_option()
    job: str | None = option()
    since_ns: int = option(type=int, default=0)
    nodes: tuple[str, ...] = nodes_option()
    as_json: bool = json_option()

    def run(self) -> None:
        found = [
            record
            for record in records_here(self.run_dir, self.nodes, self.since_ns)
            if (self.job is None or is_job(record, self.job)) and record.node in self.nodes
        ]
        click.echo(json.dumps({"records": msgspec.to_builtins(found)}))


def main() -> None:
    """Runs the hidden command, with which one node asks another."""
    sys.exit(run_cli(Records.click_command, sys.argv[1:]))


if __name__ == "__main__":
    main()
