"""``cosched cancel``, ``hold`` and ``unhold``: steer jobs of the domain."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cosched.cli.connection import connect
from cosched.cli.options import complete_domain_jobs, domain_dir_option, json_option
from cosched.core.errors import CoschedError
from cosched.jobs.client import Client, NoDomain

F = TypeVar("F", bound=Callable[..., Any])


def _jobs_of_domain(function: F) -> F:
    """Adds the arguments and options that these commands have in common."""
    function = json_option(domain_dir_option(function))
    return click.argument(
        "jobs",
        nargs=-1,
        required=True,
        metavar="JOB...",
        type=click.IntRange(min=1),
        shell_complete=complete_domain_jobs,
    )(function)


@click.command("cancel")
@_jobs_of_domain
def cancel(jobs: tuple[int, ...], run_dir: Path, as_json: bool) -> int:
    """End jobs of yours, or take them from the domain's queue.

    JOB is a number, as cosched queue shows it. The tasks get SIGTERM, and SIGKILL after the
    domain's grace. Root may cancel the jobs of all users.

    \b
    Examples:
      cosched cancel 12
      cosched cancel 12 13 14
    """
    return _steer(Client.cancel, jobs, run_dir, as_json)


@click.command("hold")
@_jobs_of_domain
def hold(jobs: tuple[int, ...], run_dir: Path, as_json: bool) -> int:
    """Keep waiting jobs of yours from starting.

    JOB is a number, as cosched queue shows it. The job stays in the queue until
    cosched unhold.

    \b
    Example:
      cosched hold 12
    """
    return _steer(Client.hold, jobs, run_dir, as_json)


@click.command("unhold")
@_jobs_of_domain
def unhold(jobs: tuple[int, ...], run_dir: Path, as_json: bool) -> int:
    """Let held jobs of yours start.

    JOB is a number, as cosched queue shows it.

    \b
    Example:
      cosched unhold 12
    """
    return _steer(Client.unhold, jobs, run_dir, as_json)


def _steer(
    action: Callable[[Client, int], None],
    jobs: tuple[int, ...],
    run_dir: Path,
    as_json: bool,
) -> int:
    """Does it to each job; one line on stderr for each job that refuses. Returns 1 if one
    does."""
    problems: dict[int, str | None] = {}
    with connect(run_dir) as client:
        for job in dict.fromkeys(jobs):
            try:
                action(client, job)
                problems[job] = None
            except NoDomain:
                raise
            except CoschedError as error:
                problems[job] = str(error)
    if as_json:
        rows = [{"job": job, "error": error} for job, error in problems.items()]
        click.echo(json.dumps({"jobs": rows}))
    for problem in filter(None, problems.values()):
        print(f"cosched: {problem}", file=sys.stderr)
    return int(any(problems.values()))
