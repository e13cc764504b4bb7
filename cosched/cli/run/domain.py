"""Starts the job of cosched-run in a domain, at once, by its agents."""

from __future__ import annotations

import os
import sys

from cosched.cli.connection import Connector
from cosched.cli.domain.waiting import (
    STDIN,
    Sizes,
    private_files,
    report_end,
    run_to_end,
)
from cosched.cli.run.given import Given
from cosched.cli.run.reports import note, warn
from cosched.cluster.submission_request import FROM_CLIENT
from cosched.core.units import NS_PER_S
from cosched.jobs.job import Job
from cosched.jobs.preparing import prepare_request
from cosched.jobs.reporting import Reports
from cosched.rundir.directories import domain_dir_to_ask


def run_in_domain(given: Given) -> int:
    """Runs a job as if its ranks ran here; returns its exit status. Raises CoschedError if
    the domain cannot start it at once."""
    usual = domain_dir_to_ask(os.environ, os.geteuid())
    run_dir = given.run_dir if given.names_run_dir else usual
    reach = Connector(run_dir.absolute(), command="cosched-run")
    with private_files() as (output, error):
        job = Job(
            given.argv,
            ranks=given.ranks or 0,
            ppn=given.ppn or 0,
            minimum=given.minimum or 0,
            preferred=given.preferred or 0,
            ideal=given.ideal or 0,
            time_s=(given.time_ns or 0) / NS_PER_S,
            name=given.name or "",
            output=output,
            error=error,
            input=FROM_CLIENT,
            at_once=True,
            mpi=given.mpi,
            shim=not given.asked.no_shim,
            memory_bytes=given.memory_bytes,
        )
        with reach() as client:
            request = prepare_request(
                client, job, Reports(warn, note), given.asked.choices()
            )

        def submit() -> int:
            with reach() as client:
                number = client.submit_request(request)
                if given.verbose:
                    _say(f"job {number} on {', '.join(client.job(number)['hosts'])}")
                return number

        ended = run_to_end(reach, submit, Sizes(0, 0), STDIN, _say)
        return report_end(ended, _say)


def _say(line: str) -> None:
    print(f"cosched-run: {line}", file=sys.stderr)
