"""``cosched sim calibrate``: measures how the programs of a workload communicate."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cosched.bench.run.interrupts import interruptible
from cosched.bench.run.processes import RunFailed
from cosched.bench.run.testbed import TestbedOptions
from cosched.bench.simulate.calibrate import calibrate
from cosched.bench.simulate.models import write_calibration
from cosched.bench.simulate.virtual import default_calibration
from cosched.cli.files import check_writable, writing
from cosched.cli.options import (
    hosts_option,
    lab_nodes_option,
    run_dir_option,
    run_limit_option,
)
from cosched.cli.printing import display_stream

HELP = """\
Measure how the programs of a workload communicate, for simulations.

Runs each [[job]] of WORKLOAD.toml (a file as for cosched bench) alone. A run
without cosched measures how long the job takes. A coscheduled run measures how
often its ranks wait for messages, and how long. The results are written as a
calibration, in TOML, for 'cosched sim nodes' and 'cosched tune --simulate'.
Run the command on the nodes, or the lab, where the jobs will run.

Counters do not show which rank waits for which. The pattern is bulk unless the
job's model names another: model = { pattern = "wavefront" }.

\b
Examples:
  cosched sim calibrate mine.toml
  cosched sim calibrate mine.toml --hosts n1,n2 --out n1n2.toml
"""

#: For the commands that read a calibration.
calibration_option = click.option(
    "--calibration",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file of 'cosched sim calibrate'; by default the one beside the workload.",
)


@click.command("calibrate", help=HELP, short_help="Measure how programs communicate.")
@click.argument("workload", type=click.Path(path_type=Path), metavar="WORKLOAD.toml")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="By default WORKLOAD.calibration.toml; '-': to stdout.",
)
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(1),
    default=1,
    help="Runs of each program without cosched; the median counts.",
)
@lab_nodes_option
@hosts_option()
@click.option("--mpi", metavar="MPI", help="As for cosched-run.")
@run_limit_option
@run_dir_option
def calibrate_workload(
    workload: Path,
    out: Path | None,
    repeats: int,
    nodes: int,
    hosts: tuple[str, ...],
    mpi: str | None,
    run_limit: float,
    run_dir: Path,
) -> None:
    out = out or default_calibration(workload)
    check_writable(out)
    options = TestbedOptions(
        run_dir=run_dir,
        nodes=nodes,
        hosts=hosts,
        mpi=mpi,
        limit_s=run_limit,
    )
    try:
        with interruptible():
            found = calibrate(workload, options, repeats, os.environ, display_stream())
    except RunFailed as error:
        for line in error.failure.output:
            click.echo(f"  | {line}", err=True)
        raise
    text = f"# From cosched sim calibrate, of {workload.name}.\n{write_calibration(found)}"
    with writing(out) as stream:
        stream.write(text)
    if out != Path("-"):
        click.echo(f"{out} is written", err=True)
