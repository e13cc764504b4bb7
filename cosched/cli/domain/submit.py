"""``cosched submit``: sends a job to the domain."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import click

from cosched.cli.options import domain_dir_option, json_option, program_argument
from cosched.cli.run.choices import run_time
from cosched.cluster.submission import FROM_CLIENT
from cosched.core.units import NS_PER_S, parse_bytes
from cosched.jobs.job import Job

_USUAL = Job(())
_NO_INPUT = "none"


@click.command(
    "submit",
    context_settings={"allow_interspersed_args": False},
    short_help="Send a job to the domain.",
)
@click.option(
    "-n",
    "-np",
    "--ranks",
    type=click.IntRange(min=1),
    metavar="R",
    help="How many ranks, on as few nodes as possible.  [default: 1]",
)
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="How many nodes.")
@click.option(
    "--ppn", type=click.IntRange(min=1), metavar="K", help="How many ranks on a node."
)
@click.option(
    "--time",
    "time_ns",
    metavar="TIME",
    callback=run_time,
    help="The job is ended after this time: 90 or 90s, 1:30 (minutes), 2h, 2:00:00 or"
    " 1-12:00:00 (days).  [default: the domain's, 1h]",
)
@click.option("--name", help="[default: the program's]")
@click.option(
    "--output",
    metavar="FILE",
    help="Both outputs go there; %j is the job's number, %x its name."
    f"  [default: {_USUAL.output}]",
)
@click.option("--error", metavar="FILE", help="Standard error goes there instead.")
@click.option(
    "--input",
    metavar="FILE",
    help="Standard input of rank 0: a file, none, or - for that of --wait.  [default: -"
    " with --wait, otherwise none]",
)
@click.option("--label", is_flag=True, help="Begin each line of output with its rank.")
@click.option("--bind", is_flag=True, help="Keep each rank on one CPU.")
@click.option(
    "--exclusive/--share",
    help="Whether the job has its nodes alone, if the domain lets nodes take several jobs."
    " Where a node takes one job, each job has its nodes alone.  [default: share]",
)
@click.option("--hold", is_flag=True, help="Let the job wait until cosched unhold.")
@click.option("--requeue", is_flag=True, help="Start it again if a node is lost.")
@click.option(
    "--mpi",
    metavar="MPI",
    help="An mpiexec, a prefix, mpich, openmpi or none.  [default: what the program uses]",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory that the job needs on each of its nodes, such as 8G.",
)
@click.option("--no-shim", is_flag=True, help="Do not coschedule the job.")
@click.option(
    "--wait",
    "waits",
    is_flag=True,
    help="Wait for the end; copy the output and end with the job's status.",
)
@domain_dir_option
@json_option
@program_argument
@click.pass_context
def command(
    ctx: click.Context,
    argv: tuple[str, ...],
    ranks: int | None,
    nodes: int | None,
    ppn: int | None,
    time_ns: int | None,
    name: str | None,
    output: str | None,
    error: str | None,
    input: str | None,
    label: bool,
    bind: bool,
    exclusive: bool,
    hold: bool,
    requeue: bool,
    mpi: str | None,
    memory: str | None,
    no_shim: bool,
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
    """
    if not argv:
        raise click.UsageError("Missing PROGRAM.", ctx)
    if memory is not None and no_shim:
        raise click.UsageError("--memory needs coscheduling.", ctx)
    from cosched.cli.domain.sending import Sending, say

    if waits:  # other submissions begin sooner without it
        from cosched.cli.domain.waiting import (
            exit_status,
            own_input,
            private_files,
            report_end,
        )

    source = None
    if waits and input in (None, FROM_CLIENT):
        if requeue and input is not None:
            raise click.UsageError(
                "--input - cannot be read again: leave out --requeue.", ctx
            )
        source = None if requeue else own_input()
    elif input == FROM_CLIENT:
        raise click.UsageError("--input - needs --wait.", ctx)
    with contextlib.ExitStack() as stack:
        if waits and not as_json and output is None and error is None:
            output, error = stack.enter_context(private_files())
        job = Job(
            argv,
            ranks=ranks or 0,
            nodes=nodes or 0,
            ppn=ppn or 0,
            time_s=(time_ns or 0) / NS_PER_S,
            name=name or "",
            output=_USUAL.output if output is None else output,
            error=error or "",
            input=_input_of_job(input, source),
            label=label,
            bind=bind,
            held=hold,
            exclusive=exclusive,
            requeue=requeue,
            mpi=mpi,
            shim=not no_shim,
            memory_bytes=0 if memory is None else parse_bytes(memory, "--memory"),
        )
        sending = Sending(job, run_dir, source)
        if waits:
            ended = sending.run_to_end(copy=not as_json)
            if not as_json:
                return report_end(ended, say)
            click.echo(json.dumps(ended))
            return exit_status(ended)
        number = sending.submit()
        click.echo(json.dumps(sending.look_up(number)) if as_json else f"job {number}")
        return 0


def _input_of_job(given: str | None, source: int | None) -> str:
    """Returns the input for the job. source: this command's input, if that is it."""
    if source is not None:
        return FROM_CLIENT
    return _USUAL.input if given in (None, FROM_CLIENT, _NO_INPUT) else str(given)
