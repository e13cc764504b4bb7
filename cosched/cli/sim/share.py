"""``cosched sim share``: runs logs on machines whose nodes several jobs share."""

from __future__ import annotations

from pathlib import Path

import click

from cosched.cli.options import json_file_option, parallel_option
from cosched.cli.sim.options import (
    carry_out_runs,
    logs_argument,
    machine_option,
    strict_option,
    write_results,
)
from cosched.core.errors import CoschedError
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_S, parse_duration
from cosched.sim.share.machine import Sharing
from cosched.sim.share.runs import Run, carry_out
from cosched.sim.share.table import render
from cosched.sim.share.turns import Costs

#: The longest requested time in the second row of places; a quarter in each further row.
SHORT_NS = 4 * 3600 * NS_PER_S


@click.command("share")
@logs_argument("TRACE.swf[.gz]...")
@click.option(
    "--dom",
    type=click.IntRange(2),
    default=3,
    help="Jobs that may share a node.",
)
@click.option(
    "--queue",
    "queue_name",
    type=click.Choice(["easy", "fcfs"]),
    default="easy",
    help="The queue's policy.",
)
@click.option(
    "--short",
    metavar="TIME,...",
    help="Longest requested time of a job that shares nodes with a first job, with a"
    " second one, ...  [default: 4h,1h,15m,...]",
)
@click.option(
    "--switch-cost",
    default="10ms",
    metavar="TIME",
    help="Time lost by each switch.",
)
@click.option(
    "--interference",
    type=click.FloatRange(0, 0.5),
    default=0.01,
    help="Part of its speed that a job loses for each job on its nodes.",
)
@click.option("--first", type=click.IntRange(2), metavar="N", help="Only the first N jobs.")
@machine_option()
@strict_option
@parallel_option
@json_file_option()
def share(
    traces: tuple[Path, ...],
    dom: int,
    queue_name: str,
    short: str | None,
    switch_cost: str,
    interference: float,
    first: int | None,
    machine: int | None,
    strict: bool,
    at_a_time: int,
    json_file: Path | None,
) -> None:
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
    costs = Costs(parse_duration(switch_cost, "--switch-cost"), interference)
    short_ns = _short_ns(short, dom)
    runs = [
        Run(trace, Sharing(name, some, USUAL, costs), machine, first, strict)
        for trace in traces
        for name, some in ((queue_name, ()), (queue_name, short_ns))
    ]
    outcomes = carry_out_runs(carry_out, runs, at_a_time)
    document = {"runs": [outcome.document() for outcome in outcomes]}
    write_results(json_file, render(outcomes), document)


def _short_ns(text: str | None, dom: int) -> tuple[int, ...]:
    """Returns the longest requested time in each row of places after the first."""
    if text is None:
        return tuple(max(1, SHORT_NS // 4**row) for row in range(dom - 1))
    short_ns = tuple(parse_duration(part.strip(), "--short") for part in text.split(","))
    if len(short_ns) != dom - 1:
        raise CoschedError(
            f"--short {text}: --dom {dom} needs {dom - 1} times, one for each place after"
            " the first"
        )
    return short_ns
