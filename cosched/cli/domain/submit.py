"""``cosched submit``: sends a job to the domain."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import click

from cosched.cli.domain.wanted import job_options
from cosched.cli.options import domain_dir_option, json_option
from cosched.cluster.submission import FROM_CLIENT
from cosched.jobs.job import Job

_NO_INPUT = "none"


@click.command(
    "submit",
    context_settings={"allow_interspersed_args": False},
    short_help="Send a job to the domain.",
)
@job_options
@click.option(
    "--output",
    metavar="FILE",
    help="Both outputs go there; %j is the job's number, %x its name."
    f"  [default: {Job(()).output}]",
)
@click.option("--error", metavar="FILE", help="Standard error goes there instead.")
@click.option(
    "--input",
    "given_input",
    metavar="FILE",
    help="Standard input of rank 0: a file, none, or - for that of --wait.  [default: -"
    " with --wait, otherwise none]",
)
@click.option(
    "--wait",
    "waits",
    is_flag=True,
    help="Wait for the end; copy the output and end with the job's status.",
)
@domain_dir_option
@json_option
def command(
    job: Job,
    output: str | None,
    error: str | None,
    given_input: str | None,
    waits: bool,
    run_dir: Path,
    as_json: bool,
) -> int:
    """Send a job to the domain's queue.

    PROGRAM is a program with its arguments; with several ranks each of them runs it. The
    ranks of an MPI program take part in coscheduling as with cosched-run. A script with one
    rank may start jobs of its own. The job gets this environment and this directory.

    --wait copies the job's output to standard output and standard error, unless --json is
    given. Rank 0 reads the standard input of this command; in a loop that reads, use
    --input none. An interrupt cancels the job. A second one only ends this command.

    \b
    Examples:
      cosched submit -n 4 ./app
      cosched submit --nodes 2 --ppn 4 --time 2h python app.py
      cosched submit --name step1 --output step1.txt -- ./script.sh --fast
      cosched submit --wait -n 2 ./app
      cosched submit --wait -n 2 ./app < data
      cosched submit --wait --input none -n 2 ./app &
      cosched submit --exclusive -n 4 ./benchmark
      cosched submit --hold --json ./app
      cosched submit --mate climate7@eureka --nodes 2 ./simulation
    """
    if given_input not in (None, FROM_CLIENT, _NO_INPUT):
        job = replace(job, input=str(given_input))
    if waits:
        job, source = _input_from_here(job, given_input)
        return _run_to_end(job, output, error, source, run_dir, as_json)
    if given_input == FROM_CLIENT:
        raise click.UsageError("--input - needs --wait.", click.get_current_context())
    from cosched.cli.domain.sending import Sending

    sending = Sending(_with_outputs(job, output, error), run_dir)
    number = sending.submit()
    click.echo(json.dumps(sending.look_up(number)) if as_json else f"job {number}")
    return 0


def _input_from_here(job: Job, given: str | None) -> tuple[Job, int | None]:
    """Returns the job, and this command's standard input if that becomes the job's."""
    from cosched.cli.domain.waiting import STDIN

    if given not in (None, FROM_CLIENT):
        return job, None
    if job.requeue:
        if given is None:
            return job, None
        raise click.UsageError(
            "--input - cannot be read again: leave out --requeue.",
            click.get_current_context(),
        )
    return replace(job, input=FROM_CLIENT), STDIN


def _run_to_end(
    job: Job,
    output: str | None,
    error: str | None,
    source: int | None,
    run_dir: Path,
    as_json: bool,
) -> int:
    """Submits the job and waits for its end; returns its status."""
    # Other submissions begin sooner without this module.
    from cosched.cli.domain.sending import Sending, say
    from cosched.cli.domain.waiting import exit_status, private_files, report_end

    with contextlib.ExitStack() as stack:
        if not as_json and output is None and error is None:
            output, error = stack.enter_context(private_files())
        job = _with_outputs(job, output, error)
        ended = Sending(job, run_dir, source).run_to_end(copy=not as_json)
    if not as_json:
        return report_end(ended, say)
    click.echo(json.dumps(ended))
    return exit_status(ended)


def _with_outputs(job: Job, output: str | None, error: str | None) -> Job:
    return replace(job, output=job.output if output is None else output, error=error or "")
