"""``cosched cancel``, ``hold``, ``unhold``, ``resize``: ends, keeps or resizes jobs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from cosched.cli.connection import connect
from cosched.cli.declared import Command, argument, command
from cosched.cli.domain.job_names import find_jobs_to_steer
from cosched.cli.options import complete_domain_jobs, domain_dir_option, json_option
from cosched.cli.values import Parsed
from cosched.cluster.client import Client, NoDomain
from cosched.cluster.job_texts import size_text
from cosched.core.arrays import JobRef
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError


@dataclass(frozen=True)
class _OfJobs(Command):
    """The options of a command that steers jobs."""

    jobs: tuple[str, ...] = argument(
        nargs=-1,
        required=True,
        metavar="JOB...",
        shell_complete=complete_domain_jobs,
    )
    run_dir: Path = domain_dir_option()
    as_json: bool = json_option()

    def _steer(self, name: str, action: Callable[[Client, JobRef], None], done: str) -> int:
        """Does it to each job, with one line for each; that of a refusal is on stderr.
        Returns 1 if there is one. Raises CoschedError, and does nothing, if a word names no
        job or several. name: that of the command. done: the state of a job after it."""
        problems: dict[JobRef, str | None] = {}
        with connect(self.run_dir) as client:
            for job in find_jobs_to_steer(
                client, self.jobs, os.geteuid(), f"cosched {name}"
            ):
                try:
                    action(client, job)
                    problems[job] = None
                except NoDomain:
                    raise
                except CoschedError as error:
                    problems[job] = str(error)
        if self.as_json:
            rows = [{"job": _shown(job), "error": error} for job, error in problems.items()]
            click.echo(json.dumps({"jobs": rows}))
        else:
            for job in (job for job, error in problems.items() if error is None):
                click.echo(f"job {job}: {done}")
        for problem in filter(None, problems.values()):
            print(f"cosched: {problem}", file=sys.stderr)
        return int(any(problems.values()))


def _shown(job: JobRef) -> int | str:
    """Returns a job for JSON: its number, or the text of some tasks of an array."""
    return str(job) if job.tasks else job.number


@command("cancel")
class Cancel(_OfJobs):
    """End jobs of yours, or take them from the domain's queue.

    JOB is a number, as cosched queue shows it, or the name of one live job of yours. The
    number of an array means all its tasks; 12_3 is one of them, and 12_1-5 are five. The
    tasks get SIGTERM, and SIGKILL after the domain's grace. Root may cancel the jobs of all
    users, by number.

    \b
    Examples:
      cosched cancel 12
      cosched cancel 12 13 14
      cosched cancel 12_7-9
      cosched cancel simulate
    """

    def run(self) -> int:
        return self._steer("cancel", Client.cancel, "cancelled")


@command("hold")
class Hold(_OfJobs):
    """Keep waiting jobs of yours from starting.

    JOB is a number, as cosched queue shows it, or the name of one live job of yours. The
    job stays in the queue until cosched unhold. The number of an array holds its waiting
    tasks.

    \b
    Examples:
      cosched hold 12
      cosched hold 12_7-9
    """

    def run(self) -> int:
        return self._steer("hold", Client.hold, "held")


@command("unhold")
class Unhold(_OfJobs):
    """Let held jobs of yours start.

    JOB is a number, as cosched queue shows it, or the name of one live job of yours.

    \b
    Example:
      cosched unhold 12
    """

    def run(self) -> int:
        return self._steer("unhold", Client.unhold, "not held")


#: The minimum, the ideal and the preferred size, in nodes; None: this one stays.
Bounds = tuple[int | None, int | None, int | None]
#: Above the nodes of any domain.
_NODES_MOST = 1 << 20


def _bounds(text: str, _what: str) -> Bounds:
    """Reads ``2..6``, ``2..``, ``..6``, ``4`` or ``2..4..6``."""
    words = text.split("..")
    given = [word for word in words if word]
    known = all(is_whole(word, 0, _NODES_MOST) for word in given)
    if not given or not known or len(words) > 3:
        raise click.BadParameter(
            f"'{text:.40}' is no number of nodes such as 4, 2..6, 2.., ..6 or 2..4..6."
        )
    sizes = [
        parse_integer(word, "nodes", 0, _NODES_MOST) if word else None for word in words
    ]
    return sizes[0], sizes[-1], sizes[1] if len(words) == 3 else None


@command("resize")
class Resize(Command):
    """Change the sizes of a malleable job of yours.

    JOB is a number, as cosched queue shows it, or the name of one live job of yours. The
    number of an array means all its tasks that have not ended. NODES is a minimum and an
    ideal: 2..6, or 4 for both. With 2.. the ideal stays as it is, and with ..6 the minimum.
    2..4..6 has the preferred size between them, and ..4.. changes it alone. The job may
    wait or run. A job that runs on more nodes than its ideal gives some back, as soon as
    its program allows. One below its minimum gets free nodes before other jobs do. The time
    limit is for the ideal: with half the ideal the job has twice the time.

    \b
    Examples:
      cosched resize 12 2..6
      cosched resize 12_7-9 4
      cosched resize 12 2..4..6
    """

    job: str = argument(metavar="JOB", shell_complete=complete_domain_jobs)
    bounds: Bounds = argument(metavar="NODES", type=Parsed("NODES", _bounds))
    run_dir: Path = domain_dir_option()
    as_json: bool = json_option()

    def run(self) -> None:
        with connect(self.run_dir) as client:
            (job,) = find_jobs_to_steer(client, [self.job], os.geteuid(), "cosched resize")
            bounds = client.resize(job, *self.bounds)
        if self.as_json:
            click.echo(json.dumps({"job": _shown(job), **bounds._asdict()}))
        else:
            click.echo(f"job {job}: {size_text(None, bounds, unit=' nodes')}")
