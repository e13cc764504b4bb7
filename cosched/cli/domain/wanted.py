"""Declares the options of ``cosched submit`` that describe the job."""

from __future__ import annotations

from typing import Any

import click

from cosched.cli.declared import flag, option, part
from cosched.cli.options import memory_option, program_argument, without
from cosched.cli.values import RUN_SECONDS
from cosched.jobs.job import Job


def job_part() -> Any:
    """Returns the options as one ``Job``."""
    return part(
        Job,
        ranks=option(
            "-n",
            "-np",
            "--ranks",
            type=click.IntRange(min=1),
            metavar="R",
            help="How many ranks, on as few nodes as possible.  [default: 1]",
        ),
        nodes=option(type=click.IntRange(min=1), metavar="N", help="How many nodes."),
        ppn=option(
            type=click.IntRange(min=1), metavar="K", help="How many ranks on a node."
        ),
        time_s=option(
            "--time",
            type=RUN_SECONDS,
            help="The job is ended after this time: 90 or 90s, 1:30 (minutes), 2h, 2:00:00"
            " or 1-12:00:00 (days).  [default: the domain's, 1h]",
        ),
        name=option(help="[default: the program's]"),
        label=flag(help="Begin each line of output with its rank."),
        bind=flag(help="Keep each rank on one CPU."),
        exclusive=option(
            "--exclusive/--share",
            help="Whether the job has its nodes alone, if the domain lets nodes take"
            " several jobs. Where a node takes one job, each job has its nodes alone.",
        ),
        held=flag("--hold", help="Let the job wait until cosched unhold."),
        requeue=flag(help="Start it again if a node is lost."),
        mpi=option(
            metavar="MPI",
            help="An mpiexec, a prefix, mpich, openmpi or none.  [default: what the program"
            " uses]",
        ),
        memory_bytes=memory_option(
            "Memory that the job needs on each of its nodes, such as 8G."
        ),
        **_mates(),
        shim=flag("--no-shim", callback=without, help="Do not coschedule the job."),
        argv=program_argument(),
    )


def _mates() -> dict[str, Any]:
    """Returns the options that name the mates of a job, by the fields of ``Job``."""
    return {
        "mates": option(
            "--mate",
            multiple=True,
            metavar="GROUP@DOMAIN",
            help="Start together with the job of this group in another domain. Repeat it"
            " for each further domain.",
        ),
        "within": option(
            metavar="TIME",
            help="Longest time between the starts of the group's jobs, such as 60s.",
        ),
        "after": option(
            metavar="DOMAIN",
            help="The job in this domain starts first, and then the others.",
        ),
        "delay": option(
            metavar="TIME", help="With --after: how long it runs before the others start."
        ),
        "mate_token": option(
            metavar="WORD",
            help="A word that all jobs of the group give, if they belong to different"
            " users.",
        ),
    }


def refuse_contradictions(job: Job) -> None:
    """Raises UsageError if the program is missing, or an option that another one needs."""
    if not job.argv:
        raise click.UsageError("Missing PROGRAM.")
    if job.memory_bytes and not job.shim:
        raise click.UsageError("--memory needs coscheduling.")
    if not job.mates and (job.within or job.after or job.delay or job.mate_token):
        raise click.UsageError("--within, --after, --delay and --mate-token need --mate.")
