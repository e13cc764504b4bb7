"""``cosched sim share``: runs logs on machines whose nodes several jobs share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import click

from cosched.cli.declared import Command, command, option, part
from cosched.cli.options import json_file_option, parallel_option
from cosched.cli.sim.options import (
    logs_argument,
    machine_option,
    read_again,
    simulate,
    strict_option,
)
from cosched.cli.values import TIME, Number, Whole, several
from cosched.core.counting import counted
from cosched.core.errors import CoschedError
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_S, parse_duration
from cosched.sim.cells import duration, left_out
from cosched.sim.share.driver import Sharing
from cosched.sim.share.share_runs import Outcome, Run, carry_out
from cosched.sim.share.turns import Costs
from cosched.tables import table

HEAD = ("queue", "wait", "response", "slowdown", "p95", "longest", "used", "of the first")
ALIGN = "<>>>>>>>"
SLOWDOWN = "mean_bounded_slowdown"
#: A ratio that differs from 1 by less is called about the same.
SAME = 0.05
MEMORY = "Such logs have no memory figures: all jobs of a node are assumed to fit."
#: The longest requested time in the second row of places; a quarter in each further row.
SHORT_NS = 4 * 3600 * NS_PER_S


@command("share")
class Share(Command):
    """Run logs on a machine whose nodes several jobs share.

    The queue starts up to DOM jobs a node. Jobs that share nodes run in the order
    of cosched's real nodes: the job that probably ends soonest comes first. The
    user's earlier jobs in the log give the expected lengths. The first row of the
    table is the same queue without sharing.

    A node has DOM places. The first place is open to all jobs, and the others
    to jobs whose users requested a short time.

    \b
    Examples:
      cosched sim share KTH.swf.gz --dom 3
      cosched sim share CTC.swf --dom 2 --short 1h --first 5000
    """

    traces: tuple[Path, ...] = logs_argument("TRACE.swf[.gz]...")
    dom: int = option(type=Whole(2), default=3, help="Jobs that may share a node.")
    policy: str = option(
        "--queue",
        type=click.Choice(["easy", "fcfs"]),
        default="easy",
        help="The queue's policy.",
    )
    short_ns: tuple[int, ...] | None = option(
        "--short",
        type=several("TIME,...", parse_duration),
        help="Longest requested time of a job that shares nodes with a first job, with a"
        " second one, ...  [default: 4h,1h,15m,...]",
    )
    costs: Costs = part(
        Costs,
        switch_ns=option(
            "--switch-cost", type=TIME, default="10ms", help="Time lost by each switch."
        ),
        beside=option(
            "--interference",
            type=Number(0, 0.5),
            default=0.01,
            help="Part of its speed that a job loses for each job on its nodes.",
        ),
    )
    first: int | None = option(type=Whole(2), metavar="N", help="Only the first N jobs.")
    machine: int | None = machine_option()
    strict: bool = strict_option()
    at_a_time: int = parallel_option()
    json_file: Path | None = json_file_option()

    def run(self) -> None:
        with read_again(self.traces) as traces:
            self._run(traces)

    def _run(self, traces: Sequence[Path]) -> None:
        short_ns = _short_ns(self)
        runs = [
            Run(
                trace,
                Sharing(self.policy, some, USUAL, self.costs),
                self.machine,
                self.first,
                self.strict,
            )
            for trace in traces
            for some in ((), short_ns)
        ]
        simulate(carry_out, runs, self.at_a_time, self.json_file, render)


def _short_ns(given: Share) -> tuple[int, ...]:
    """Returns the longest requested time in each row of places after the first."""
    rows = given.dom - 1
    if given.short_ns is None:
        return tuple(max(1, SHORT_NS // 4**row) for row in range(rows))
    if len(given.short_ns) != rows:
        raise CoschedError(
            f"--short: --dom {given.dom} needs {counted(rows, 'time')}, one for each place"
            " after the first"
        )
    return given.short_ns


def render(outcomes: Sequence[Outcome]) -> str:
    """Returns a block for each log, whose first row is the machine without sharing."""
    blocks = []
    for trace, group in groupby(outcomes, key=lambda outcome: outcome.run.trace):
        rows = list(group)
        first = rows[0]
        lines = [
            trace.name,
            f"{first.jobs} jobs, {first.machine} nodes, load {first.figures['load']:.2f}",
            *left_out(first.skipped),
            *table(HEAD, [_cells(row, first) for row in rows], ALIGN),
            *(_verdict(row, first) for row in rows[1:]),
        ]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join([*blocks, MEMORY]) + "\n"


def _cells(outcome: Outcome, first: Outcome) -> tuple[str, ...]:
    figures = outcome.figures
    return (
        outcome.run.name,
        duration(figures["mean_wait_s"]),
        duration(figures["mean_response_s"]),
        f"{figures[SLOWDOWN]:.1f}",
        f"{figures['p95_bounded_slowdown']:.1f}",
        duration(figures["max_response_s"]),
        f"{figures['utilisation']:.0%}",
        f"{_ratio(SLOWDOWN, outcome, first):.2f}",
    )


def _verdict(outcome: Outcome, first: Outcome) -> str:
    """Compares a shared machine with the first row."""
    return (
        f"shared: slowdown {_compared(_ratio(SLOWDOWN, outcome, first))}, "
        f"response {_compared(_ratio('mean_response_s', outcome, first))}, "
        f"longest {_compared(_ratio('max_response_s', outcome, first))}"
    )


def _ratio(figure: str, outcome: Outcome, first: Outcome) -> float:
    return outcome.figures[figure] / first.figures[figure]


def _compared(ratio: float) -> str:
    if abs(ratio - 1) < SAME:
        return "about the same"
    return f"{'better' if ratio < 1 else 'worse'} ({ratio:.2f})"
