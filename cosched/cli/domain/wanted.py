"""Defines the options of ``cosched submit`` that describe the job."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from cosched.cli.options import add_options, memory_option, program_argument
from cosched.cli.run.choices import run_time
from cosched.core.units import NS_PER_S
from cosched.jobs.job import Job


def _run_time_s(ctx: click.Context, param: click.Parameter, text: str | None) -> float:
    """Reads a time limit; 0 without one."""
    return (run_time(ctx, param, text) or 0) / NS_PER_S


def _without(_: click.Context, __: click.Parameter, given: bool) -> bool:
    """Reads a flag that switches something off."""
    return not given


_Function = Callable[..., Any]

#: By the field of ``Job`` that gets the option's value; None leaves the field as it is.
_OPTIONS: dict[str, Callable[[_Function], _Function]] = {
    "ranks": click.option(
        "-n",
        "-np",
        "--ranks",
        type=click.IntRange(min=1),
        metavar="R",
        help="How many ranks, on as few nodes as possible.  [default: 1]",
    ),
    "nodes": click.option(
        "--nodes", type=click.IntRange(min=1), metavar="N", help="How many nodes."
    ),
    "ppn": click.option(
        "--ppn", type=click.IntRange(min=1), metavar="K", help="How many ranks on a node."
    ),
    "time_s": click.option(
        "--time",
        "time_s",
        metavar="TIME",
        callback=_run_time_s,
        help="The job is ended after this time: 90 or 90s, 1:30 (minutes), 2h, 2:00:00 or"
        " 1-12:00:00 (days).  [default: the domain's, 1h]",
    ),
    "name": click.option("--name", help="[default: the program's]"),
    "label": click.option(
        "--label", is_flag=True, help="Begin each line of output with its rank."
    ),
    "bind": click.option("--bind", is_flag=True, help="Keep each rank on one CPU."),
    "exclusive": click.option(
        "--exclusive/--share",
        help="Whether the job has its nodes alone, if the domain lets nodes take several"
        " jobs. Where a node takes one job, each job has its nodes alone.",
    ),
    "held": click.option(
        "--hold", "held", is_flag=True, help="Let the job wait until cosched unhold."
    ),
    "requeue": click.option(
        "--requeue", is_flag=True, help="Start it again if a node is lost."
    ),
    "mpi": click.option(
        "--mpi",
        metavar="MPI",
        help="An mpiexec, a prefix, mpich, openmpi or none.  [default: what the program"
        " uses]",
    ),
    "memory_bytes": memory_option(
        "Memory that the job needs on each of its nodes, such as 8G."
    ),
    "mates": click.option(
        "--mate",
        "mates",
        multiple=True,
        metavar="GROUP@DOMAIN",
        help="Start together with the job of this group in another domain. Repeat it for"
        " each further domain.",
    ),
    "within": click.option(
        "--within",
        default="",
        metavar="TIME",
        help="The jobs of the group may start so far apart, such as 60s.",
    ),
    "after": click.option(
        "--after",
        default="",
        metavar="DOMAIN",
        help="The job in this domain starts first, and then the others.",
    ),
    "delay": click.option(
        "--delay",
        default="",
        metavar="TIME",
        help="With --after: how long it runs before the others start.",
    ),
    "mate_token": click.option(
        "--mate-token",
        default="",
        metavar="WORD",
        help="A word that all jobs of the group give, if they belong to different users.",
    ),
    "shim": click.option(
        "--no-shim",
        "shim",
        is_flag=True,
        callback=_without,
        help="Do not coschedule the job.",
    ),
    "argv": program_argument,
}


def job_options(function: _Function) -> _Function:
    """Gives a command these options, and their values as one ``Job`` named ``job``.

    The command raises UsageError if the program is missing or options contradict."""

    @functools.wraps(function)
    def with_job(**values: Any) -> Any:
        asked = {field: values.pop(field) for field in _OPTIONS}
        job = Job(**{field: each for field, each in asked.items() if each is not None})
        _refuse_contradictions(job)
        return function(job=job, **values)

    command: _Function = with_job
    return add_options(tuple(_OPTIONS.values()), command)


def _refuse_contradictions(job: Job) -> None:
    """Raises UsageError if the program is missing, or an option that another one needs."""
    ctx = click.get_current_context()
    if not job.argv:
        raise click.UsageError("Missing PROGRAM.", ctx)
    if job.memory_bytes and not job.shim:
        raise click.UsageError("--memory needs coscheduling.", ctx)
    if not job.mates and (job.within or job.after or job.delay or job.mate_token):
        raise click.UsageError(
            "--within, --after, --delay and --mate-token need --mate.", ctx
        )
