"""``cosched submit``: sends a job to the domain."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from cosched.cli.declared import Command, command, flag, option, part
from cosched.cli.domain.batch_command import BatchCommand, script_of
from cosched.cli.domain.given import OF_ARRAYS, WORDS, Given
from cosched.cli.domain.job_names import JOBS
from cosched.cli.domain.need_options import need_options
from cosched.cli.options import (
    check_sizes,
    domain_dir_option,
    ideal_option,
    json_option,
    memory_option,
    minimum_option,
    preferred_option,
    program_argument,
    without,
)
from cosched.cli.values import RUN_SECONDS, YES_OR_NO, Parsed, Whole, some_of
from cosched.cluster.submission_request import FROM_CLIENT
from cosched.core.arrays import parse_array
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import Resource
from cosched.jobs.job import Job


def _array(text: str, _what: str) -> str:
    """Reads the indices of an array; they stay a text."""
    try:
        parse_array(text)
    except CoschedError as error:
        raise click.BadParameter(f"{error}.") from None
    return text


def _directory(text: str, _what: str) -> str:
    path = os.path.abspath(text)
    if not os.path.isdir(path):
        raise click.BadParameter(f"'{text:.200}': there is no such directory.")
    return path


def _job_part() -> Any:
    """Returns the options that describe the job as one ``Job``."""
    return part(
        Job,
        **_sizes(),
        time_s=option(
            *WORDS["time_s"],
            type=RUN_SECONDS,
            help="The job is ended after this time: 90 or 90s, 1:30 (minutes), 2h, 2:00:00"
            " or 1-12:00:00 (days).  [default: the domain's; without one any time]",
        ),
        name=option(help="The job's name.  [default: the program's]"),
        label=flag(help="Begin each line of output with its rank."),
        bind=flag(help="Keep each rank on one CPU."),
        **_shared_nodes(),
        **_batch(),
        held=flag(*WORDS["held"], help="Let the job wait until cosched unhold."),
        requeue=flag(help="Start it again if a node is lost."),
        mpi=option(
            metavar="MPI",
            help="An mpiexec, a prefix, mpich, openmpi or none.  [default: what the program"
            " uses]",
        ),
        memory_bytes=memory_option(
            "Memory that the job needs on each of its nodes, such as 8G."
        ),
        **need_options(),
        **_mates(),
        shim=flag(*WORDS["shim"], callback=without, help="Do not coschedule the job."),
        argv=program_argument(),
    )


def _sizes() -> dict[str, Any]:
    """Returns the options for ranks and nodes, by the fields of ``Job``."""
    return {
        "ranks": option(
            *WORDS["ranks"],
            type=Whole(min=1),
            metavar="R",
            help="How many ranks, on as few nodes as possible.  [default: 1]",
        ),
        "nodes": option(
            *WORDS["nodes"],
            type=Whole(min=1),
            metavar="N",
            help="How many nodes.",
        ),
        "ppn": option(type=Whole(min=1), metavar="K", help="How many ranks on a node."),
        "minimum": minimum_option(),
        "preferred": preferred_option(),
        "ideal": ideal_option(),
    }


def _shared_nodes() -> dict[str, Any]:
    """Returns the options for nodes with other jobs, by the fields of ``Job``."""
    return {
        "exclusive": flag(help="The job has its nodes alone, wherever nodes take several."),
        "share": flag(
            help="Where jobs have CPUs, as on one machine: the CPUs of this job may have"
            " other jobs that share, and they take turns. Nodes that take several jobs are"
            " shared by all without --exclusive.",
        ),
        "limited_by": option(
            type=some_of([resource.value for resource in Resource], "RESOURCES"),
            help="What limits the job most: one or several of cpu, memory, io, network."
            " With this it may share its nodes, half and half, if the domain divides them.",
        ),
        "share_node": option(
            type=YES_OR_NO,
            help="Whether the job may share its nodes, half and half.  [default: yes with"
            " --limited-by, otherwise no or what the domain's operator wants]",
        ),
    }


def _batch() -> dict[str, Any]:
    """Returns the options that batch scripts add, by the fields of ``Job``."""
    return {
        "cwd": option(
            type=Parsed("DIR", _directory),
            help="The working directory of the job; its files are in it. A relative"
            " path of PROGRAM still begins in this one.  [default: this one]",
        ),
        "array": option(
            type=Parsed("INDICES", _array),
            help="Submit the job once for each index: 1-100, 1,3,7-9, 1-9:2, or 1-100%10"
            " for at most 10 at a time.",
        ),
        "after": option(
            type=JOBS,
            help="Start after the end of these jobs: 12, 12_3 or 12_1-5 of an array, with"
            " commas between them.",
        ),
        "after_ok": option(
            type=JOBS,
            help="The same, and all of them must end with status 0. If one does not, this"
            " job is cancelled.",
        ),
    }


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
        "mate_first": option(
            metavar="DOMAIN",
            help="The job in this domain starts first, and then the others.",
        ),
        "delay": option(
            metavar="TIME",
            help="With --mate-first: how long it runs before the others start.",
        ),
        "mate_token": option(
            metavar="WORD",
            help="A word that all jobs of the group give, if they belong to different"
            " users.",
        ),
    }


@command("submit", cls=BatchCommand, context_settings={"allow_interspersed_args": False})
class Submit(Command):
    """Send a job to the domain's queue.

    PROGRAM is a program with its arguments; with several ranks each of them runs it. The
    ranks of an MPI program take part in coscheduling as with cosched-run. A script with one
    rank may start jobs of its own. The job gets this environment and this directory.

    Lines of a script that begin with #COSCHED have options of this command. #SBATCH lines
    have those of Slurm, so far as both mean the same. They stand before the first command
    of the script. The command line wins over #COSCHED, and that over #SBATCH. A script with
    #SBATCH lines runs once, on one node. A script with such lines is copied: later changes
    of the file do not change the job.

    --array submits one job for each index, which finds it in COSCHED_ARRAY_TASK_ID. Task 3
    of array 12 is job 12_3.

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
      cosched submit --share -n 2 ./app
      cosched submit --memory 8G --constraint bigmem --need matlab:2 ./app
      cosched submit --limited-by memory -n 8 ./stream
      cosched submit --limited-by io,network --share-node yes ./copy
      cosched submit --min 1 --ideal 8 python loop.py
      cosched submit --min 1 --preferred 4 --ideal 8 python loop.py
      cosched submit --hold --json ./app
      cosched submit ./script.sh
      cosched submit --array 1-100%10 --output run-%A_%a.txt ./script.sh
      cosched submit --after-ok 12,13 ./collect.sh
      cosched submit --mate climate7@eureka --nodes 2 ./simulation
    """

    job: Job = _job_part()
    output: str | None = option(
        metavar="FILE",
        help="Both outputs are added to it; %j is the job's number, %x its name, %A the"
        f" number of its array, %a its index there.  [default: {Job(()).output},"
        f" {OF_ARRAYS} in an array]",
    )
    error: str | None = option(metavar="FILE", help="Standard error goes there instead.")
    input: str | None = option(
        metavar="FILE",
        help="Standard input of rank 0: a file, none, or - for that of --wait.  [default: -"
        " with --wait, otherwise none]",
    )
    waits: bool = flag(
        *WORDS["waits"],
        help="Wait for the end; copy the output and end with the job's status.",
    )
    run_dir: Path = domain_dir_option()
    as_json: bool = json_option()

    def __post_init__(self) -> None:
        _refuse_contradictions(self.job)
        if self.job.array and self.input == FROM_CLIENT:
            raise click.UsageError("--input - does not go with --array.")
        if self.input != FROM_CLIENT:
            return
        if not self.waits:
            raise click.UsageError("--input - needs --wait.")
        if self.job.requeue:
            raise click.UsageError("--input - cannot be read again: leave out --requeue.")

    def run(self) -> int:
        # Slow, and --help sends nothing.
        from cosched.cli.domain.submitting import submit

        script = script_of(click.get_current_context())
        return submit(Given(**vars(self), script=script))


def _refuse_contradictions(job: Job) -> None:
    """Raises UsageError if the program is missing, or an option that another one needs."""
    if not job.argv:
        raise click.UsageError("Missing PROGRAM.")
    if job.exclusive and job.share:
        raise click.UsageError("--exclusive and --share cannot be combined.")
    apart = {
        "--exclusive": job.exclusive,
        "--share-node no": job.share_node is False,
        "--mate": job.mates,
    }
    shares = "--limited-by" if job.limited_by else "--share-node yes"
    for name, given in apart.items():
        if given and (job.limited_by or job.share_node):
            raise click.UsageError(
                f"{name} does not go with {shares}, which is for jobs that share nodes."
            )
    _refuse_mates(job)
    rigid = {
        "-n": job.ranks,
        "--nodes": job.nodes,
        "--mate": job.mates,
        "--exclusive": job.exclusive,
        "--limited-by": job.limited_by,
        "--share-node yes": job.share_node,
        "--bind": job.bind,
    }
    check_sizes(job.minimum, job.ideal, rigid, job.preferred)


def _refuse_mates(job: Job) -> None:
    """Raises UsageError for options about mates that contradict or need others."""
    if not job.mates and (job.within or job.mate_first or job.delay or job.mate_token):
        raise click.UsageError(
            "--within, --mate-first, --delay and --mate-token need --mate."
        )
    if job.within and job.mate_first:
        raise click.UsageError("--within and --mate-first cannot be combined.")
    if job.delay and not job.mate_first:
        raise click.UsageError("--delay needs --mate-first.")
    if job.mates and (job.array or job.after or job.after_ok):
        raise click.UsageError(
            "--mate does not go with --array, --after and --after-ok: mates start together."
        )
