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

_OPTIONS = (
    click.option(
        "-n",
        "-np",
        "--ranks",
        type=click.IntRange(min=1),
        metavar="R",
        help="How many ranks, on as few nodes as possible.  [default: 1]",
    ),
    click.option(
        "--nodes", type=click.IntRange(min=1), metavar="N", help="How many nodes."
    ),
    click.option(
        "--ppn", type=click.IntRange(min=1), metavar="K", help="How many ranks on a node."
    ),
    click.option(
        "--time",
        "time_ns",
        metavar="TIME",
        callback=run_time,
        help="The job is ended after this time: 90 or 90s, 1:30 (minutes), 2h, 2:00:00 or"
        " 1-12:00:00 (days).  [default: the domain's, 1h]",
    ),
    click.option("--name", help="[default: the program's]"),
    click.option("--label", is_flag=True, help="Begin each line of output with its rank."),
    click.option("--bind", is_flag=True, help="Keep each rank on one CPU."),
    click.option(
        "--exclusive/--share",
        help="Whether the job has its nodes alone, if the domain lets nodes take several"
        " jobs. Where a node takes one job, each job has its nodes alone.",
    ),
    click.option("--hold", is_flag=True, help="Let the job wait until cosched unhold."),
    click.option("--requeue", is_flag=True, help="Start it again if a node is lost."),
    click.option(
        "--mpi",
        metavar="MPI",
        help="An mpiexec, a prefix, mpich, openmpi or none.  [default: what the program"
        " uses]",
    ),
    memory_option("Memory that the job needs on each of its nodes, such as 8G."),
    click.option(
        "--mate",
        "mates",
        multiple=True,
        metavar="GROUP@DOMAIN",
        help="Start together with the job of this group in another domain. Repeat it for"
        " each further domain.",
    ),
    click.option(
        "--within",
        default="",
        metavar="TIME",
        help="The jobs of the group may start so far apart, such as 60s.",
    ),
    click.option(
        "--after",
        default="",
        metavar="DOMAIN",
        help="The job in this domain starts first, and then the others.",
    ),
    click.option(
        "--delay",
        default="",
        metavar="TIME",
        help="With --after: how long it runs before the others start.",
    ),
    click.option(
        "--mate-token",
        default="",
        metavar="WORD",
        help="A word that all jobs of the group give, if they belong to different users.",
    ),
    click.option("--no-shim", is_flag=True, help="Do not coschedule the job."),
    program_argument,
)


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command these options, and their values as one ``Job`` named ``job``.

    The command raises UsageError if the program is missing or options contradict."""

    @functools.wraps(function)
    def with_job(
        *,
        argv: tuple[str, ...],
        ranks: int | None,
        nodes: int | None,
        ppn: int | None,
        time_ns: int | None,
        name: str | None,
        label: bool,
        bind: bool,
        exclusive: bool,
        hold: bool,
        requeue: bool,
        mpi: str | None,
        memory_bytes: int,
        mates: tuple[str, ...],
        within: str,
        after: str,
        delay: str,
        mate_token: str,
        no_shim: bool,
        **others: Any,
    ) -> Any:
        ctx = click.get_current_context()
        if not argv:
            raise click.UsageError("Missing PROGRAM.", ctx)
        if memory_bytes and no_shim:
            raise click.UsageError("--memory needs coscheduling.", ctx)
        if not mates and (within or after or delay or mate_token):
            raise click.UsageError(
                "--within, --after, --delay and --mate-token need --mate.", ctx
            )
        job = Job(
            argv,
            ranks=ranks or 0,
            nodes=nodes or 0,
            ppn=ppn or 0,
            time_s=(time_ns or 0) / NS_PER_S,
            name=name or "",
            label=label,
            bind=bind,
            held=hold,
            exclusive=exclusive,
            requeue=requeue,
            mpi=mpi,
            shim=not no_shim,
            memory_bytes=memory_bytes,
            mates=mates,
            within=within,
            after=after,
            delay=delay,
            mate_token=mate_token,
        )
        return function(job=job, **others)

    return add_options(_OPTIONS, with_job)
