"""Reads the options of ``cosched history`` that select jobs which have ended."""

from __future__ import annotations

import contextlib
import os
import pwd
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from cosched.cli.declared import flag, option
from cosched.cli.jobs.records import records_elsewhere, records_here
from cosched.cli.options import nodes_option
from cosched.core.bounds import UID_MOST
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError
from cosched.core.trace.job_record import JobRecord
from cosched.core.units import NS_PER_S, parse_duration
from cosched.observe.job_summary import JobSummary, runs, summary
from cosched.observe.reach.ways import Way


@dataclass(frozen=True)
class Selection:
    """The options that select jobs which have ended; without any: all jobs."""

    job: str | None = option(help="Only jobs of this name, or UID.NAME.")
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
        found = map(summary, runs(filter(self._has, kept)))
        ended = [one for one in found if one.ended_wall_ns <= until_ns]
        return sorted(ended, key=lambda one: one.ended_wall_ns)

    def _has(self, record: JobRecord) -> bool:
        named = self.job in (None, record.name, record.job)
        return named and (not self.nodes or record.node in self.nodes)


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
