"""``cosched bench``: runs one workload in several ways and compares the runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from cosched.bench.run.arms import Arm, parse_arms
from cosched.bench.run.bench import BenchOptions, run_bench
from cosched.bench.run.interrupts import interruptible
from cosched.bench.run.processes import RunFailed
from cosched.bench.run.testbed import TestbedOptions
from cosched.cli.entry import EXIT_FAILURE
from cosched.cli.files import check_writable, write_outcome
from cosched.cli.options import (
    hosts_option,
    json_file_option,
    lab_nodes_option,
    run_dir_option,
    run_limit_option,
    set_with_option,
)
from cosched.cli.printing import display_stream

HELP = """\
Run a workload with and without cosched, and compare.

\b
The arms:
  batch         one job after the other
  kernel        all jobs at once, scheduled by the kernel alone
  yield         as kernel, but waiting ranks yield their CPU
  block         as kernel, but waiting ranks sleep
  gang          all jobs at once, one driver switches all nodes: the ideal
  slurm-gang    time-sliced by Slurm (scripts/slurm-lab)
  messages      coscheduled in the paper's order, with ranks that wait busily
  paper         as messages, with all else as in the paper: strict shares too
  strict        coscheduled; the time that a job leaves unused is lost
  proportional  coscheduled; other jobs get the time that a job leaves unused
  cosched       coscheduled, with the settings of the nodes' daemons
  srpt          calculated from batch: the job with the least rest runs first
  las           calculated from batch: the least served jobs share

A workload file lists jobs. A job runs a command, or a C source that is compiled
for the MPI in use. The path of the source is relative to the file:

\b
  [[job]]
  name = "wavefront"
  source = "../../programs/wavefront.c"
  args = "--preset demo"
  ranks = 2
  count = 4
  [[job]]
  name = "analysis"
  command = ["python3", "analyse.py"]
  ranks = 2
  start = 1.5

A job may also be a Python module (module = "package.solver"). Further keys of
a job: ppn, env, cwd, timeout (seconds). The file may have a title and a
description.

\b
Examples:
  cosched bench benchmarks/workloads/lab/wavefront4.toml
  cosched bench mine.toml --hosts n1,n2 --arms kernel,cosched --repeat 5
  cosched bench mine.toml --slice 2s --gmet 300ms --out result.json
  cosched bench mine.toml --repeat 9 --resume runs.jsonl
  cosched bench mine.toml --by-slurm --arms kernel,cosched
  cosched bench stream.toml --seen 3 --arms batch,kernel,cosched,srpt,las
  cosched bench mine.toml --hosts n1,n2 --slice 5s \\
      --set-with 'pdsh -w n1,n2 cosched config set'

Exit status: 0, or 1 if a job of any run failed.
"""


@click.command("bench", help=HELP)
@click.argument("workload", type=click.Path(path_type=Path), metavar="WORKLOAD.toml")
@lab_nodes_option
@click.option(
    "--cores-per-node",
    type=click.IntRange(1),
    default=1,
    help="CPUs of each node of a private lab.",
)
@hosts_option()
@click.option(
    "--shared-cpus", is_flag=True, help="Measure also in a lab whose nodes share CPUs."
)
@click.option(
    "--by-slurm",
    is_flag=True,
    help="The Slurm of the lab starts the jobs of every arm, by sbatch and srun.",
)
@click.option("--arms", default="batch,kernel,cosched", help="Ways to run the workload.")
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(1),
    default=3,
    help="Runs of each arm; the result is the median.",
)
@json_file_option("Also write everything to FILE, as JSON ('-': as --json).")
@click.option("--mpi", metavar="MPI", help="As for cosched-run: mpich, openmpi or a path.")
@click.option("--slice", "slice_", metavar="TIME|auto", help="Slice during the bench.")
@click.option("--gmet", metavar="TIME|auto", help="GMET during the bench.")
@click.option("--align", type=click.Choice(["on", "off"]), help="Align during the bench.")
@set_with_option
@click.option(
    "--seen",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Runs of each program alone before, so that its length is known.",
)
@click.option("--dom", type=click.IntRange(1), metavar="N", help="Jobs that run at a time.")
@run_limit_option
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep each finished run in FILE; skip the runs that it has.",
)
@click.option("--no-warm-up", is_flag=True, help="Do not run the first job once before.")
@run_dir_option
def command(
    workload: Path,
    nodes: int,
    cores_per_node: int,
    hosts: tuple[str, ...],
    shared_cpus: bool,
    by_slurm: bool,
    arms: str,
    repeats: int,
    json_file: Path | None,
    mpi: str | None,
    slice_: str | None,
    gmet: str | None,
    align: str | None,
    set_with: tuple[str, ...],
    seen: int,
    dom: int | None,
    run_limit: float,
    resume: Path | None,
    no_warm_up: bool,
    run_dir: Path,
) -> int:
    options = BenchOptions(
        workload=workload,
        arms=parse_arms(arms, tuple(Arm)),
        repeats=repeats,
        testbed=TestbedOptions(
            run_dir=run_dir,
            nodes=nodes,
            cores_per_node=cores_per_node,
            hosts=hosts,
            mpi=mpi,
            settings=_given(slice=slice_, gmet=gmet, align=align),
            limit_s=run_limit,
            set_with=set_with,
            shared_cpus=shared_cpus,
            slurm=by_slurm,
        ),
        dom=dom,
        warm_up=not no_warm_up,
        resume=resume,
        seen=seen,
        command_line=tuple(sys.argv),
    )
    check_writable(json_file)
    try:
        with interruptible():
            outcome = run_bench(options, os.environ, display_stream())
    except RunFailed as error:
        for line in error.failure.output:
            click.echo(f"  | {line}", err=True)
        raise
    write_outcome(json_file, outcome.text, outcome.document)
    return EXIT_FAILURE if outcome.failed else 0


def _given(**settings: str | None) -> dict[str, str]:
    return {name: value for name, value in settings.items() if value is not None}
