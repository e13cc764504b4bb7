"""``cosched cancel``, ``hold`` and ``unhold``: steer jobs of the domain."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from cosched.cli.connection import connect
from cosched.cli.declared import Command, argument, command
from cosched.cli.options import complete_domain_jobs, domain_dir_option, json_option
from cosched.core.errors import CoschedError
from cosched.jobs.client import Client, NoDomain


@dataclass(frozen=True)
class _OfJobs(Command):
    """The options of a command that steers jobs."""

    jobs: tuple[int, ...] = argument(
        nargs=-1,
        required=True,
        metavar="JOB...",
        type=click.IntRange(min=1),
        shell_complete=complete_domain_jobs,
    )
    run_dir: Path = domain_dir_option()
    as_json: bool = json_option()

    def _steer(self, action: Callable[[Client, int], None]) -> int:
        """Does it to each job; one line on stderr for each job that refuses. Returns 1 if
        one does."""
        problems: dict[int, str | None] = {}
        with connect(self.run_dir) as client:
            for job in dict.fromkeys(self.jobs):
                try:
                    action(client, job)
                    problems[job] = None
                except NoDomain:
                    raise
                except CoschedError as error:
                    problems[job] = str(error)
        if self.as_json:
            rows = [{"job": job, "error": error} for job, error in problems.items()]
            click.echo(json.dumps({"jobs": rows}))
        for problem in filter(None, problems.values()):
            print(f"cosched: {problem}", file=sys.stderr)
        return int(any(problems.values()))


@command("cancel")
class Cancel(_OfJobs):
    """End jobs of yours, or take them from the domain's queue.

    JOB is a number, as cosched queue shows it. The tasks get SIGTERM, and SIGKILL after the
    domain's grace. Root may cancel the jobs of all users.

    \b
    Examples:
      cosched cancel 12
      cosched cancel 12 13 14
    """

    def run(self) -> int:
        return self._steer(Client.cancel)


@command("hold")
class Hold(_OfJobs):
    """Keep waiting jobs of yours from starting.

    JOB is a number, as cosched queue shows it. The job stays in the queue until
    cosched unhold.

    \b
    Example:
      cosched hold 12
    """

    def run(self) -> int:
        return self._steer(Client.hold)


@command("unhold")
class Unhold(_OfJobs):
    """Let held jobs of yours start.

    JOB is a number, as cosched queue shows it.

    \b
    Example:
      cosched unhold 12
    """

    def run(self) -> int:
        return self._steer(Client.unhold)
