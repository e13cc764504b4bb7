"""Starts the job of cosched-run in a domain, at once, by its agents."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from cosched.cli.connection import Connector
from cosched.cli.domain.waiting import (
    STDIN,
    Sizes,
    private_files,
    report_end,
    run_to_end,
)
from cosched.cli.run.start import note, warn
from cosched.cluster.submission import FROM_CLIENT
from cosched.jobs.choices import Choices
from cosched.jobs.job import Job
from cosched.jobs.tasks import Reports


def run_in_domain(job: Job, run_dir: Path, choices: Choices, *, verbose: bool) -> int:
    """Runs the job as if its ranks ran here; returns its exit status. Raises CoschedError
    if the domain cannot start it at once."""

    reach = Connector(run_dir, command="cosched-run")
    with private_files() as (output, error):
        job = dataclasses.replace(
            job,
            output=output,
            error=error,
            input=FROM_CLIENT,
            at_once=True,
        )
        with reach() as client:
            submission = client.prepare(job, Reports(warn, note), choices)

        def submit() -> int:
            with reach() as client:
                number = client.submit(submission)
                if verbose:
                    _say(f"job {number} on {', '.join(client.job(number)['hosts'])}")
                return number

        ended = run_to_end(reach, submit, Sizes(0, 0), STDIN, _say)
        return report_end(ended, _say)


def _say(line: str) -> None:
    print(f"cosched-run: {line}", file=sys.stderr)
