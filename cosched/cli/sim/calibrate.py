"""``cosched sim calibrate``: measures how the programs of a workload communicate."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cosched.bench.run.testbed import TestbedOptions
from cosched.bench.simulate.calibrate import calibrate
from cosched.bench.simulate.models import write_calibration
from cosched.bench.simulate.virtual import default_calibration
from cosched.cli.declared import Command, argument, command, option, part
from cosched.cli.files import check_writable, writing
from cosched.cli.hosts_option import hosts_option
from cosched.cli.measure.measuring import at_hand, lab_nodes_option, measuring
from cosched.cli.options import (
    FILE_OR_STDOUT,
    PATH,
    mpi_option,
    run_dir_option,
    run_limit_option,
)
from cosched.cli.printing import display_stream
from cosched.cli.values import Whole


@command("calibrate")
class Calibrate(Command):
    """Measure how the programs of a workload communicate, for simulations.

    Runs each [[job]] of WORKLOAD.toml (a file as for cosched bench) alone. A run
    without cosched measures how long the job takes. A coscheduled run measures how
    often its ranks wait for messages, and how long. The results are written as a
    calibration, in TOML, for 'cosched sim nodes' and 'cosched tune --simulate'.
    Run the command on the nodes, or the lab, where the jobs will run. A user without
    root and without a lab calibrates on this machine, as with --hosts localhost.

    Counters do not show which rank waits for which. The pattern is bulk unless the
    job's model names another: model = { pattern = "wavefront" }.

    \b
    Examples:
      cosched sim calibrate mine.toml
      cosched sim calibrate mine.toml --hosts n1,n2 --out n1n2.toml
    """

    workload: Path = argument(type=PATH, metavar="WORKLOAD.toml")
    out: Path | None = option(
        type=FILE_OR_STDOUT,
        metavar="FILE",
        help="By default WORKLOAD.calibration.toml; '-': to stdout.",
    )
    repeats: int = option(
        "--repeat",
        type=Whole(1),
        default=1,
        help="Runs of each program without cosched; the median counts.",
    )
    testbed: TestbedOptions = part(
        TestbedOptions,
        nodes=lab_nodes_option(),
        hosts=hosts_option(),
        mpi=mpi_option(),
        limit_s=run_limit_option(),
        run_dir=run_dir_option(),
    )

    def run(self) -> None:
        out = self.out or default_calibration(self.workload)
        check_writable(out)
        with measuring():
            testbed = at_hand(self.testbed, self.workload)
            found = calibrate(
                self.workload, testbed, self.repeats, os.environ, display_stream()
            )
        text = (
            f"# From cosched sim calibrate, of {self.workload.name}.\n"
            f"{write_calibration(found)}"
        )
        with writing(out) as stream:
            stream.write(text)
        if out != Path("-"):
            click.echo(f"{out} is written", err=True)
