"""``cosched sim startup``: simulates how the tasks of a job are started on its nodes."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from pathlib import Path

import click

from cosched.cli.files import check_writable
from cosched.cli.options import choose, json_file_option, parallel_option
from cosched.cli.sim.options import carry_out_runs, write_results
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.units import parse_bytes
from cosched.sim.startup.costs import Costs, read_costs
from cosched.sim.startup.model import DESIGNS, ORDERS, StartupRun
from cosched.sim.startup.runs import carry_out
from cosched.sim.startup.table import render

MOST_NODES = 65536
MOST_TASKS = 1024

HELP = """\
Start a job on many simulated nodes (Brelsford et al. 2010).

The job object goes down a tree of the job's nodes. The nodes exchange network
tables over the tree, start their tasks, and begin together. Designs:

\b
  old           the job object has the units of all tasks and all tables; a
                node reads the whole of it and writes a part for each child
  new           nodes assign their own units and exchange tables; a node waits
                for all that it passes on
  pipelined     the same, but nodes pass on each chunk
  through-root  the same, but all tables go to the root and then down
  live-old      as a live domain with both old designs: nodes wait for the
                whole object, and all tables go to the root and then down

The table has the five parts of the dispatch time in milliseconds. A part ends
when the last node has done it. All combinations of designs, nodes and tasks
are run.

The costs of messages, bytes and steps are those of a cluster as the paper's.
With --costs FILE they come from a calibration, a TOML file:

\b
  format = "cosched-startup-1"
  [costs]
  {keys}

\b
Examples:
  cosched sim startup
  cosched sim startup --nodes 31,62,124,248 --tasks 32 --chunk 16K
  cosched sim startup --nodes 248 --tasks 2,32,128 --designs old,pipelined
  cosched sim startup --nodes 16384 --designs pipelined --json
"""


def _numbers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    most = MOST_NODES if param.name == "nodes" else MOST_TASKS
    words = [word.strip() for word in value.split(",")]
    for word in words:
        if not is_whole(word, 1, most):
            raise click.BadParameter(f"'{word}' is not a whole number from 1 to {most}.")
    return tuple(dict.fromkeys(parse_integer(word, "", 1, most) for word in words))


def _keys() -> str:
    """Returns the costs and their defaults as lines of the file."""
    lines = [f"{each.name} = {each.default:g}" for each in fields(Costs)]
    return "\n  ".join(lines)


@click.command(
    "startup", help=HELP.format(keys=_keys()), short_help="Start a job on many nodes."
)
@click.option(
    "--nodes", callback=_numbers, metavar="N,...", default="248", show_default=True
)
@click.option(
    "--tasks",
    callback=_numbers,
    metavar="T,...",
    default="32",
    show_default=True,
    help="Tasks on each node.",
)
@click.option(
    "--designs",
    callback=choose(tuple(DESIGNS)),
    metavar="A,...",
    default="old,new,pipelined",
    show_default=True,
)
@click.option(
    "--arity",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Children of a node in the tree.",
)
@click.option(
    "--chunk",
    default="16K",
    show_default=True,
    metavar="BYTES",
    help="Of the job object and of the tables (pipelined).",
)
@click.option(
    "--object",
    "object_",
    default="4K",
    show_default=True,
    metavar="BYTES",
    help="The job object without units and tables.",
)
@click.option(
    "--table",
    type=click.IntRange(0, 1 << 20),
    default=25,
    show_default=True,
    metavar="BYTES",
    help="Of a task in the network tables.",
)
@click.option(
    "--order",
    type=click.Choice(list(ORDERS)),
    default="paper",
    show_default=True,
    help="paper: tables before the tasks start; live: in MPI_Init.",
)
@click.option(
    "--costs",
    "costs_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A calibration.",
)
@click.option(
    "--link", type=click.FloatRange(0, min_open=True), metavar="MB/S", help="Bandwidth."
)
@parallel_option
@json_file_option()
def startup(
    nodes: tuple[int, ...],
    tasks: tuple[int, ...],
    designs: tuple[str, ...],
    arity: int,
    chunk: str,
    object_: str,
    table: int,
    order: str,
    costs_file: Path | None,
    link: float | None,
    at_a_time: int,
    json_file: Path | None,
) -> None:
    check_writable(json_file)
    costs = read_costs(costs_file) if costs_file else Costs()
    if link is not None:
        costs = replace(costs, link_mb_s=link)
    runs = [
        StartupRun(
            design,
            size,
            each,
            arity=arity,
            chunk_bytes=parse_bytes(chunk, "--chunk"),
            object_bytes=parse_bytes(object_, "--object"),
            table_bytes=table,
            order=order,
            costs=costs,
        )
        for size, each, design in product(nodes, tasks, designs)
    ]
    outcomes = carry_out_runs(carry_out, runs, at_a_time)
    document = {"runs": [outcome.document() for outcome in outcomes]}
    write_results(json_file, render(outcomes), document)
