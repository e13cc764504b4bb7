"""``cosched demo``: shows the gain of coscheduling on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from cosched.bench.demo.cpus import few_cpus, on_cpus
from cosched.bench.demo.picture import NAMES, picture
from cosched.bench.demo.sample import (
    PROGRAM,
    build_sample,
    build_shim,
    make_folder,
    write_workload,
)
from cosched.bench.run.bench import BenchOptions, Outcome, run_bench
from cosched.bench.run.interrupts import temporary_folder
from cosched.bench.run.processes import RunLate
from cosched.bench.run.testbed import TestbedOptions
from cosched.cli.declared import Command, command, option
from cosched.cli.entry import EXIT_FAILURE
from cosched.cli.files import check_writable, write_outcome
from cosched.cli.measure.measuring import HERE, measuring
from cosched.cli.options import json_file_option, mpi_option, run_dir_option
from cosched.cli.printing import display_stream
from cosched.cli.values import Whole
from cosched.core.errors import CoschedError
from cosched.linux.cpu_surroundings import usable_siblings

_RANKS = 2
#: How long the runs may take for each repeat, in seconds.
_REPEAT_MOST_S = 60.0


@command("demo")
class Demo(Command):
    """Show on this machine what coscheduling gains.

    Builds a sample program, whose ranks exchange thousands of small messages a second.
    Runs several jobs of it: one after the other, all at once under the kernel alone, and
    all at once with cosched. Any user can do it. All jobs have the same two CPUs, because
    jobs with CPUs of their own do not disturb each other. The machine should have nothing
    else to do: then it takes less than a minute. On a busy machine it makes fewer runs, or
    stops some: they take four minutes at most, and eight with --repeat 4. The first demo
    with an MPI also builds the shim, however long that takes.

    With --build DIR it runs nothing. It writes into DIR the program, its source and a
    workload for cosched bench.

    \b
    Examples:
      cosched demo
      cosched demo --repeat 5 --out demo.json
      cosched demo --build sample
      cosched-run -n 2 sample/wavefront --preset short
      cosched bench sample/workload.toml --hosts localhost

    Exit status: 0, or 1 if a job of any run failed.
    """

    jobs: int = option(type=Whole(2, 16), default=4, metavar="N", help="Jobs at once.")
    repeats: int = option(
        "--repeat",
        type=Whole(1),
        default=2,
        metavar="N",
        help="Runs of each way; the result is the median.",
    )
    mpi: str | None = mpi_option("As for cosched-run: mpich, openmpi or a path.")
    build: Path | None = option(
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Write the sample into DIR, and run nothing.",
    )
    run_dir: Path = run_dir_option()
    json_file: Path | None = json_file_option(
        "Also write all figures to FILE, as cosched bench does ('-': as --json)."
    )

    def run(self) -> int:
        if self.build is not None:
            return self._build(self.build)
        check_writable(self.json_file)
        with measuring():
            outcome = self._measure()
        text = "\n".join(picture(outcome.document)) + "\n"
        if outcome.failed:
            text += "\n" + outcome.text
        write_outcome(self.json_file, text, outcome.document)
        return EXIT_FAILURE if outcome.failed else 0

    def _measure(self) -> Outcome:
        log = display_stream()
        cpus = few_cpus(_RANKS, usable_siblings())
        # Two demos of a user at once have the same daemons, where a name is taken once.
        name = f"{PROGRAM}-{os.getpid()}"
        build_shim(self.mpi, os.environ, lambda line: print(line, file=log, flush=True))
        with temporary_folder("cosched-demo-") as folder, on_cpus(cpus):
            options = BenchOptions(
                workload=write_workload(folder, _RANKS, self.jobs, name),
                arms=tuple(NAMES),
                repeats=self.repeats,
                testbed=TestbedOptions(self.run_dir, hosts=(HERE,), mpi=self.mpi),
                within_s=_REPEAT_MOST_S * self.repeats,
                command_line=tuple(sys.argv),
            )
            try:
                return run_bench(options, os.environ, log)
            except RunLate as error:
                raise CoschedError(f"{error}; try it again on a quiet machine") from None

    def _build(self, folder: Path) -> int:
        make_folder(folder)
        program = build_sample(folder, self.mpi, os.environ)
        workload = write_workload(folder, _RANKS, self.jobs)
        for line in (
            f"{program} and {workload} are written. Try:",
            f"  cosched-run -n {_RANKS} {_shown(program)} --preset short",
            f"  cosched bench {workload} --hosts {HERE}",
        ):
            click.echo(line)
        return 0


def _shown(program: Path) -> str:
    """Returns the program as a shell finds it."""
    return str(program) if "/" in str(program) else f"./{PROGRAM}"
