"""``cosched submit``: sends a job to the domain."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import click

from cosched.cli.declared import Command, command, flag, option
from cosched.cli.domain.sending import Sending, say
from cosched.cli.domain.waiting import STDIN, exit_status, private_files, report_end
from cosched.cli.domain.wanted import job_part, refuse_contradictions
from cosched.cli.options import domain_dir_option, json_option
from cosched.cluster.submission import FROM_CLIENT
from cosched.jobs.job import Job

_NO_INPUT = "none"


@command("submit", context_settings={"allow_interspersed_args": False})
class Submit(Command):
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

    job: Job = job_part()
    output: str | None = option(
        metavar="FILE",
        help="Both outputs go there; %j is the job's number, %x its name."
        f"  [default: {Job(()).output}]",
    )
    error: str | None = option(metavar="FILE", help="Standard error goes there instead.")
    input: str | None = option(
        metavar="FILE",
        help="Standard input of rank 0: a file, none, or - for that of --wait.  [default: -"
        " with --wait, otherwise none]",
    )
    waits: bool = flag(
        "--wait", help="Wait for the end; copy the output and end with the job's status."
    )
    run_dir: Path = domain_dir_option()
    as_json: bool = json_option()

    def __post_init__(self) -> None:
        refuse_contradictions(self.job)
        if self.input != FROM_CLIENT:
            return
        if not self.waits:
            raise click.UsageError("--input - needs --wait.")
        if self.job.requeue:
            raise click.UsageError("--input - cannot be read again: leave out --requeue.")

    @property
    def reads_here(self) -> bool:
        """Whether this command's standard input becomes the job's."""
        usual = self.input is None and self.waits and not self.job.requeue
        return usual or self.input == FROM_CLIENT

    @property
    def is_copied(self) -> bool:
        """Whether this command copies the job's output."""
        return self.waits and not self.as_json

    def with_files(self, output: str | None, error: str | None) -> Job:
        """Returns the job with these outputs, and with its input."""
        given = None if self.input == _NO_INPUT else self.input
        return replace(
            self.job,
            input=FROM_CLIENT if self.reads_here else given or self.job.input,
            output=self.job.output if output is None else output,
            error=error or "",
        )

    def run(self) -> int:
        if self.waits:
            return _run_to_end(self)
        sending = Sending(self.with_files(self.output, self.error), self.run_dir)
        number = sending.submit()
        text = json.dumps(sending.look_up(number)) if self.as_json else f"job {number}"
        click.echo(text)
        return 0


def _run_to_end(given: Submit) -> int:
    """Submits the job and waits for its end; returns its status."""
    output, error = given.output, given.error
    with contextlib.ExitStack() as stack:
        if given.is_copied and output is None and error is None:
            output, error = stack.enter_context(private_files())
        source = STDIN if given.reads_here else None
        sending = Sending(given.with_files(output, error), given.run_dir, source)
        ended = sending.run_to_end(copy=given.is_copied)
    if given.is_copied:
        return report_end(ended, say)
    click.echo(json.dumps(ended))
    return exit_status(ended)
