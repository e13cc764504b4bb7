"""``cosched sim symbiosis log``: the jobs of a log, sharing nodes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cosched.cli.files import check_writable
from cosched.cli.options import choose
from cosched.cli.sim.sharing import (
    json_option,
    model_option,
    read_model,
    runs_document,
    save_option,
    simulate,
    write_document,
)
from cosched.core.cluster.symbiosis.scheduler import ORDERS
from cosched.sim.symbiotic.runs import NAMES, SharingRun
from cosched.sim.symbiotic.stream import DRAWS, StreamRecipe
from cosched.sim.symbiotic.table import log_table

BASE = "whole"

HELP = """\
Run the jobs of a log on nodes that they share, and by EASY without sharing.

A TRACE is a log in the Standard Workload Format. Logs do not say what limits a
job, so each gets an application of the model by chance, in the proportions of
the paper's stream: memory, CPU and I/O as 2 : 1 : 1. --repeat draws so often;
printed are means. A job has whole nodes in the log; sharing, it has half of
each of twice as many.

Placements are those of cosched sim symbiosis stream; whole, which is EASY
without sharing, is always among them. Printed are, for each placement: the
makespan, the mean wait and the mean response, each with EASY's / this one; the
speed of jobs against nodes of their own; the share of jobs that took longer
than there.

\b
Examples:
  cosched sim symbiosis log KTH.swf.gz --skip-bad
  cosched sim symbiosis log SDSC.swf --placements anyhow --repeat 10 --json
  cosched sim symbiosis log mine.swf --model mine.json --draw user
"""


@click.command("log", help=HELP, short_help="A log's jobs on nodes that they share.")
@click.argument("trace", type=click.Path(path_type=Path), metavar="TRACE.swf[.gz]")
@model_option("datastar")
@click.option(
    "--placements",
    callback=choose(NAMES),
    metavar="A,B",
    default="labels,anyhow,learned",
    show_default=True,
    help="One or several, beside whole.",
)
@click.option(
    "--machine",
    type=click.IntRange(1),
    metavar="NODES",
    help="Nodes of the machine; by default what the log says.",
)
@click.option(
    "--draw",
    type=click.Choice(DRAWS),
    default="job",
    show_default=True,
    help="Draw an application for each job, or for each user's executable.",
)
@click.option(
    "--order",
    type=click.Choice(list(ORDERS)),
    default="fcfs",
    show_default=True,
    help="Who is considered first.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    metavar="N",
    help="Draws: this seed and those after it.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of all chance.")
@click.option("--skip-bad", is_flag=True, help="Leave bad lines of the log out.")
@save_option
@json_option
def log(
    trace: Path,
    model_name: str,
    placements: tuple[str, ...],
    machine: int | None,
    draw: str,
    order: str,
    repeat: int,
    seed: int,
    skip_bad: bool,
    save_in: Path | None,
    json_file: Path | None,
) -> None:
    check_writable(json_file)
    model = read_model(model_name)
    runs = [
        SharingRun(
            model=model,
            recipe=StreamRecipe(seed=seed + count),
            nodes=machine or 0,
            order=order,
            queue_limit=sys.maxsize,
            placements=tuple(dict.fromkeys((BASE, *placements))),
            trace=trace,
            skip_bad=skip_bad,
            draw=draw,
        )
        for count in range(repeat)
    ]
    outcomes, files = simulate(runs, save_in)
    if json_file != Path("-"):
        click.echo(log_table(outcomes), nl=False)
    if json_file is not None:
        write_document(json_file, runs_document(model_name, outcomes, files))
