"""``cosched bench``: runs one workload in several ways and compares the runs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from cosched.bench.run.arms import Arm, parse_arms
from cosched.bench.run.bench import BenchOptions, run_bench
from cosched.bench.run.testbed import TestbedOptions
from cosched.cli.declared import Command, argument, command, flag, option, part
from cosched.cli.entry import EXIT_FAILURE
from cosched.cli.files import check_writable, write_outcome
from cosched.cli.hosts_option import hosts_option
from cosched.cli.measure.measuring import at_hand, lab_nodes_option, measuring
from cosched.cli.options import (
    PATH,
    json_file_option,
    mpi_option,
    rate_option,
    run_dir_option,
    run_limit_option,
    set_with_option,
    without,
)
from cosched.cli.printing import display_stream
from cosched.cli.values import Parsed, Whole


@command("bench")
class Bench(Command):
    """Run a workload with and without cosched, and compare.

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
      bound         calculated from each program alone: no schedule can beat it

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
      cosched bench mine.toml --hosts localhost
      cosched bench mine.toml --hosts n1,n2 --arms kernel,cosched --repeat 5
      cosched bench mine.toml --slice 2s --gmet 300ms --out result.json
      cosched bench mine.toml --repeat 9 --resume runs.jsonl
      cosched bench mine.toml --by-slurm --arms kernel,cosched
      cosched bench stream.toml --seen 3 --arms batch,kernel,cosched,srpt,las
      cosched bench mine.toml --hosts n1,n2 --slice 5s \\
          --set-with 'pdsh -w n1,n2 cosched config set'

    Without --hosts it uses the lab that is up, or makes one. A user without root runs the
    workload on this machine, as with --hosts localhost.

    Exit status: 0, or 1 if a job of any run failed.
    """

    options: BenchOptions = part(
        BenchOptions,
        workload=argument(type=PATH, metavar="WORKLOAD.toml"),
        arms=option(
            type=Parsed("A,B", lambda text, _: parse_arms(text, tuple(Arm))),
            default="batch,kernel,cosched",
            help="Ways to run the workload.",
        ),
        repeats=option(
            "--repeat",
            type=Whole(1),
            default=3,
            help="Runs of each arm; the result is the median.",
        ),
        testbed=part(
            TestbedOptions,
            nodes=lab_nodes_option(),
            cores_per_node=option(
                type=Whole(1),
                help="CPUs of each node of the lab; 1 if the bench makes it.",
            ),
            rate=rate_option(),
            hosts=hosts_option(),
            shared_cpus=flag(help="Measure also in a lab whose nodes share CPUs."),
            slurm=flag(
                "--by-slurm",
                help="The Slurm of the lab starts the jobs of every arm, by sbatch and"
                " srun.",
            ),
            mpi=mpi_option("As for cosched-run: mpich, openmpi or a path."),
            set_with=set_with_option(),
            limit_s=run_limit_option(),
            run_dir=run_dir_option(),
        ),
        seen=option(
            type=Whole(0),
            metavar="N",
            help="Runs of each program alone before, so that its length is known.",
        ),
        dom=option(type=Whole(1), metavar="N", help="Jobs that run at a time."),
        resume=option(
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Keep each finished run in FILE; skip the runs that it has.",
        ),
        warm_up=flag(
            "--no-warm-up", callback=without, help="Do not run the first job once before."
        ),
    )
    slice_: str | None = option(
        "--slice", metavar="TIME|auto", help="Slice during the bench."
    )
    gmet: str | None = option(metavar="TIME|auto", help="GMET during the bench.")
    align: str | None = option(
        type=click.Choice(["on", "off"]), help="Align during the bench."
    )
    json_file: Path | None = json_file_option(
        "Also write everything to FILE, as JSON ('-': as --json)."
    )

    def run(self) -> int:
        named = {"slice": self.slice_, "gmet": self.gmet, "align": self.align}
        settings = {name: text for name, text in named.items() if text is not None}
        options = replace(
            self.options,
            testbed=replace(
                at_hand(self.options.testbed, self.options.workload), settings=settings
            ),
            command_line=tuple(sys.argv),
        )
        check_writable(self.json_file)
        with measuring(options.resume):
            outcome = run_bench(options, os.environ, display_stream())
        write_outcome(self.json_file, outcome.text, outcome.document)
        return EXIT_FAILURE if outcome.failed else 0
