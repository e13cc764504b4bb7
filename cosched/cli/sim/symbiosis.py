"""``cosched sim symbiosis``: simulates jobs that share nodes."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import click

from cosched.cli.declared import Command, command, option, part
from cosched.cli.files import check_writable
from cosched.cli.groups import Group
from cosched.cli.options import json_file_option
from cosched.cli.sim.options import repeat_option, save_option, seed_option, write_results
from cosched.cli.sim.shared_nodes import (
    model_option,
    order_option,
    placements_option,
    read_model,
    share_up_to_option,
    simulate,
)
from cosched.cli.sim.symbiosis_log import Log
from cosched.cli.values import Number, Whole
from cosched.core.symbiosis.labels import WRONG_RUNS
from cosched.sim.symbiotic.pairings import assess
from cosched.sim.symbiotic.rounds import check_labels, experiment
from cosched.sim.symbiotic.stream import StreamRecipe
from cosched.sim.symbiotic.symbiotic_runs import NAMES, SharingRun
from cosched.sim.symbiotic.symbiotic_table import (
    assessment_table,
    checks_table,
    matrix_table,
    stream_table,
)


@click.group("symbiosis", cls=Group)
def symbiosis() -> None:
    """Run jobs that share nodes, half and half.

    After Weinberg and Snavely (2006). Users label each job with the resources
    that limit it: cpu, memory, io or network. Two jobs that are limited by
    different resources can share a node well. A matrix gives the speed of each
    job beside each other one: datastar (the paper's Table 4), npb (Tables 1
    and 2), or that of your machine, which this command measures:
    python -m benchmarks.kernels matrix --json mine.json

    \b
    Examples:
      cosched sim symbiosis pairs
      cosched sim symbiosis stream --repeat 20
      cosched sim symbiosis stream --model mine.json --machine 16 --jobs 1000
      cosched sim symbiosis log KTH.swf.gz
    """


@command("pairs", of=symbiosis)
class Pairs(Command):
    """Compare users' labels with speeds: all applications in pairs.

    Prints the matrix, the gain of schedules that follow the labels, and
    whether the matrix confirms each label.

    \b
    Examples:
      cosched sim symbiosis pairs
      cosched sim symbiosis pairs --rounds 8 --out pairs.json
    """

    model: str = model_option("datastar")
    rounds: int = option(
        type=Whole(0),
        default=0,
        show_default=False,
        metavar="N",
        help="Also run N schedules of a scheduler that experiments.",
    )
    json_file: Path | None = json_file_option()

    def run(self) -> None:
        check_writable(self.json_file)
        model = read_model(self.model)
        found = assess(model)
        checks = check_labels(model)
        ran = experiment(model, self.rounds)
        tables = (matrix_table(model), assessment_table(found), checks_table(checks))
        text = "\n".join(tables) + "".join(
            f"round {count}: {one.throughput - 1.0:+.1%}, estimates off by "
            f"{one.error:.1%} on average, labels refuted: {one.refuted}\n"
            for count, one in enumerate(ran, 1)
        )
        document = {
            "model": self.model,
            "assessment": asdict(found),
            "labels": [check.document() for check in checks],
            "rounds": [asdict(one) for one in ran],
        }
        write_results(self.json_file, text, document)


@command("stream", of=symbiosis)
class Stream(Command):
    """Run streams of small and large jobs on nodes with two halves.

    \b
    Placements:
      whole    whole nodes for each job: traditional space-sharing
      packed   the same, but two jobs of half a node may share one
      split    jobs limited by memory on top halves, all others on bottom halves
      labels   not beside jobs that labels warn of; symbiotic ones first
      anyhow   the same, but beside a job that labels warn of as the last choice
      learned  as anyhow, by the speeds observed so far

    Backfill is EASY. A stream resembles the paper's: 100 jobs of half a node or of
    four halves, at most twelve of them queued.

    Prints for each placement the makespan, the makespan of whole and of packed / this
    one, and the mean wait. Two more columns are the speed of jobs, 1 on whole nodes,
    and the share of jobs that ran slower than there. All are means over the streams.

    \b
    Examples:
      cosched sim symbiosis stream --repeat 20
      cosched sim symbiosis stream --placements whole,split --order fcfs
      cosched sim symbiosis stream --machine 16 --share-up-to auto
      cosched sim symbiosis stream --model datastar --save out --out out.json
      cosched sim symbiosis stream --wrong 0.2 --liars 0.2 --wrong-runs 0
    """

    model: str = model_option("npb")
    placements: tuple[str, ...] = placements_option(",".join(NAMES), "One or several.")
    machine: int = option(
        type=Whole(1),
        default=4,
        metavar="NODES",
        help="Nodes of the machine, with two halves each.",
    )
    recipe: StreamRecipe = part(
        StreamRecipe,
        jobs=option(type=Whole(1), metavar="N", help="Jobs of each stream."),
        large=option(type=Whole(1), metavar="HALVES", help="Size of the large jobs."),
        users=option(type=Whole(1), metavar="N", help="Users of the stream."),
        wrong=option(
            type=Number(0, 1),
            metavar="SHARE",
            help="Share of a user's applications with a wrong label, 0 to 1.",
        ),
        liars=option(
            type=Number(0, 1),
            metavar="SHARE",
            help="Share of users who name the CPU for all jobs, 0 to 1.",
        ),
        seed=seed_option(),
    )
    order: str = order_option("largest")
    queue_limit: int = option(
        "--queue",
        type=Whole(1),
        default=12,
        metavar="N",
        help="Greatest number of jobs that wait at a time.",
    )
    share_up_to: float | None = share_up_to_option("1")
    wrong_runs: int = option(
        type=Whole(0),
        default=WRONG_RUNS,
        metavar="N",
        help="A label has no effect after so many wrong runs; 0: each has one.",
    )
    repeat: int = repeat_option(1, "Streams, with this seed and the next ones.")
    save_in: Path | None = save_option()
    json_file: Path | None = json_file_option()

    def run(self) -> None:
        model = read_model(self.model)
        runs = [
            SharingRun(
                model=model,
                recipe=replace(self.recipe, seed=self.recipe.seed + count),
                nodes=self.machine,
                order=self.order,
                queue_limit=self.queue_limit,
                placements=self.placements,
                share_up_to=self.share_up_to,
                wrong_runs=self.wrong_runs,
            )
            for count in range(self.repeat)
        ]
        simulate(self.model, runs, self.save_in, self.json_file, stream_table)


symbiosis.add_command(Log.click_command)
