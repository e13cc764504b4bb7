"""``cosched sim symbiosis log``: runs the jobs of a log on shared nodes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cosched.cli.declared import Command, command, option
from cosched.cli.options import json_file_option
from cosched.cli.sim.options import (
    log_argument,
    machine_option,
    read_again,
    repeat_option,
    save_option,
    seed_option,
    strict_option,
)
from cosched.cli.sim.shared_nodes import (
    model_option,
    order_option,
    placements_option,
    read_model,
    share_up_to_option,
    simulate,
)
from cosched.sim.symbiotic.stream import DRAWS, StreamRecipe
from cosched.sim.symbiotic.symbiotic_runs import SharingRun
from cosched.sim.symbiotic.symbiotic_table import log_table

BASE = "whole"


@command("log", short_help="Run the jobs of a log on shared nodes.")
class Log(Command):
    """Run the jobs of a log on nodes that they share, and by EASY without sharing.

    A TRACE is a log in the Standard Workload Format. Logs do not say what limits a
    job. Each job therefore gets a random application of the model, in the
    proportions of the paper: memory, CPU and I/O as 2 : 1 : 1. With --repeat the
    figures are means over several draws. A job that has N whole nodes in the log
    gets half of each of 2N nodes. It must be as small as a domain requires;
    --share-up-to 1 lets all share.

    The placements are those of cosched sim symbiosis stream. whole, which is EASY
    without sharing, always runs too. Prints for each placement the makespan, the
    mean wait and the mean response. The gain beside each is that of whole / this
    one: above 1, the placement is better. Two more columns are the speed of jobs, 1
    on whole nodes, and the share of jobs that ran slower than there.

    \b
    Examples:
      cosched sim symbiosis log KTH.swf.gz
      cosched sim symbiosis log SDSC.swf --placements anyhow --repeat 10 --json
      cosched sim symbiosis log mine.swf --model mine.json --draw user
    """

    trace: Path = log_argument()
    model: str = model_option("datastar")
    placements: tuple[str, ...] = placements_option(
        "labels,anyhow,learned", "One or several, beside whole."
    )
    machine: int | None = machine_option()
    draw: str = option(
        type=click.Choice(DRAWS),
        default="job",
        help="Draw an application for each job, or for each user's executable.",
    )
    order: str = order_option("fcfs")
    share_up_to: float | None = share_up_to_option("auto")
    repeat: int = repeat_option(3, "Draws, with this seed and the next ones.")
    seed: int = seed_option()
    strict: bool = strict_option()
    save_in: Path | None = save_option()
    json_file: Path | None = json_file_option()

    def run(self) -> None:
        with read_again([self.trace]) as (trace,):
            self._run(trace)

    def _run(self, trace: Path) -> None:
        model = read_model(self.model)
        runs = [
            SharingRun(
                model=model,
                recipe=StreamRecipe(seed=self.seed + count),
                nodes=self.machine or 0,
                order=self.order,
                queue_limit=sys.maxsize,
                placements=tuple(dict.fromkeys((BASE, *self.placements))),
                trace=trace,
                strict=self.strict,
                draw=self.draw,
                share_up_to=self.share_up_to,
            )
            for count in range(self.repeat)
        ]
        simulate(self.model, runs, self.save_in, self.json_file, log_table)
