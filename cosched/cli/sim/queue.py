"""``cosched sim queue``: runs logs through a batch queue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import click

from cosched.cli.declared import Command, command, flag, option
from cosched.cli.options import json_file_option, parallel_option
from cosched.cli.sim.options import (
    command_line,
    logs_argument,
    machine_option,
    read_again,
    save_option,
    simulate,
    strict_option,
)
from cosched.cli.values import Whole, some_of
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.errors import CoschedError
from cosched.sim.cells import duration, left_out
from cosched.sim.logs.workload import Estimates
from cosched.sim.queue.queue_runs import Outcome, Run, carry_out
from cosched.tables import table

HEAD = ("policy", "estimates", "wait", "median", "p95", "slowdown", "bounded", "used")
ALIGN = "<<>>>>>>"


@command("queue")
class Queue(Command):
    """Run logs through a batch queue.

    A TRACE is a log in the Standard Workload Format, plain or compressed.

    \b
    Policies:
      fcfs          first come, first served; no backfill
      easy          the same with EASY backfill
      conservative  the same with a reservation for every job
      wfp           highest (queued / walltime)^3 x size first, EASY backfill
      largest       most nodes first, EASY backfill

    All combinations of traces, policies and estimates are run, side by side on
    the cores.

    \b
    Examples:
      cosched sim queue KTH.swf.gz --policy easy
      cosched sim queue KTH.swf CTC.swf --policy easy,wfp --estimates log,exact
      cosched sim queue KTH.swf.gz --save results --out all.json
      cosched sim queue mira.swf --policy wfp --blocks 512
    """

    traces: tuple[Path, ...] = logs_argument("TRACE.swf[.gz]...")
    policies: tuple[str, ...] = option(
        "--policy", type=some_of(tuple(POLICIES)), default="easy", help="One or several."
    )
    estimates: tuple[str, ...] = option(
        type=some_of(tuple(each.value for each in Estimates)),
        default="log",
        help="Run times that the policy expects: as users asked (log), or exact.",
    )
    machine: int | None = machine_option()
    blocks: int | None = option(
        type=Whole(1),
        metavar="NODES",
        help="Jobs get aligned blocks of 1, 2, 4, ... times NODES nodes, like the"
        " partitions of a Blue Gene. Not with conservative.",
    )
    strict: bool = strict_option()
    at_a_time: int = parallel_option()
    save_in: Path | None = save_option()
    save_nodes: bool = flag(help="With --save: each job's nodes, too.")
    json_file: Path | None = json_file_option()

    def __post_init__(self) -> None:
        if self.save_nodes and self.save_in is None:
            raise click.UsageError("--save-nodes needs --save: it is a column there.")
        if self.blocks is not None and "conservative" in self.policies:
            raise click.UsageError(
                "--blocks: conservative plans with numbers of nodes, not with blocks."
            )

    def run(self) -> None:
        with read_again(self.traces) as traces:
            self._run(traces)

    def _run(self, traces: Sequence[Path]) -> None:
        words = command_line()
        runs = [
            Run(
                trace=trace,
                policy=policy,
                estimates=Estimates(estimates),
                machine=self.machine,
                unit=self.blocks,
                strict=self.strict,
                keep_nodes=self.save_nodes,
                save_in=self.save_in,
                command=words,
            )
            for trace in traces
            for policy in self.policies
            for estimates in self.estimates
        ]
        _check_folder(runs, self.save_in)
        simulate(carry_out, runs, self.at_a_time, self.json_file, render)


def _check_folder(runs: Sequence[Run], save_in: Path | None) -> None:
    """Raises CoschedError before the runs if their columns cannot be saved."""
    if save_in is None:
        return
    names = [run.name for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise CoschedError(f"two runs would be saved as {name}; rename a trace")
    try:
        save_in.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoschedError(f"{save_in}: cannot be made ({error.strerror})") from error


def render(outcomes: Sequence[Outcome]) -> str:
    """Returns a block for each log; ends with a newline."""
    blocks = []
    for trace, group in groupby(outcomes, key=lambda outcome: outcome.run.trace):
        rows = list(group)
        first = rows[0]
        figures = first.figures
        lines = [
            trace.name,
            f"{figures['jobs']:g} jobs, {first.machine} nodes, load {figures['load']:.2f}",
        ]
        lines += left_out(first.skipped)
        lines += table(HEAD, map(_cells, rows), ALIGN)
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _cells(outcome: Outcome) -> tuple[str, ...]:
    figures = outcome.figures
    return (
        outcome.run.policy,
        outcome.run.estimates.value,
        duration(figures["mean_wait_s"]),
        duration(figures["median_wait_s"]),
        duration(figures["p95_wait_s"]),
        f"{figures['mean_slowdown']:.1f}",
        f"{figures['mean_bounded_slowdown']:.1f}",
        f"{figures['utilisation']:.0%}",
    )
