"""``cosched sim startup``: simulates how the tasks of a job are started on its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

import click

from cosched.cli.declared import Command, command, option
from cosched.cli.options import json_file_option, parallel_option
from cosched.cli.sim.options import simulate
from cosched.cli.values import SIZE, Number, Whole, several, some_of, whole
from cosched.sim.startup.costs import Costs, read_costs
from cosched.sim.startup.model import DESIGNS, ORDERS, PAPERS_ORDER, Stage, StartupRun
from cosched.sim.startup.startup_runs import StartupOutcome, carry_out
from cosched.tables import table

TITLES = {
    Stage.OBJECT: "object",
    Stage.ASSIGN: "assign",
    Stage.TABLES: "tables",
    Stage.START: "start",
    Stage.GO: "go",
}
HEAD = ("design", "nodes", "tasks", *(TITLES[part] for part in PAPERS_ORDER), "all, ms")
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


def _keys() -> str:
    """Returns the costs and their defaults as lines of the file."""
    lines = [f"{each.name} = {each.default:g}" for each in fields(Costs)]
    return "\n  ".join(lines)


@command("startup", help=HELP.format(keys=_keys()))
class Startup(Command):
    """The options of ``cosched sim startup``."""

    nodes: tuple[int, ...] = option(
        type=several("N,...", whole(1, MOST_NODES)), default="248", help="Nodes of the job."
    )
    tasks: tuple[int, ...] = option(
        type=several("T,...", whole(1, MOST_TASKS)),
        default="32",
        help="Tasks on each node.",
    )
    designs: tuple[str, ...] = option(
        type=some_of(tuple(DESIGNS), "A,..."),
        default="old,new,pipelined",
        help="Designs to compare.",
    )
    arity: int = option(type=Whole(1), default=2, help="Children of a node in the tree.")
    chunk_bytes: int = option(
        "--chunk",
        type=SIZE,
        default="16K",
        metavar="BYTES",
        help="Of the job object and of the tables (pipelined).",
    )
    object_bytes: int = option(
        "--object",
        type=SIZE,
        default="4K",
        metavar="BYTES",
        help="The job object without units and tables.",
    )
    table_bytes: int = option(
        "--table",
        type=Whole(0, 1 << 20),
        default=25,
        metavar="BYTES",
        help="Of a task in the network tables.",
    )
    order: str = option(
        type=click.Choice(list(ORDERS)),
        default="paper",
        help="paper: tables before the tasks start; live: in MPI_Init.",
    )
    costs_file: Path | None = option(
        "--costs",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A calibration.",
    )
    link: float | None = option(
        type=Number(0, min_open=True), metavar="MB/S", help="Bandwidth."
    )
    at_a_time: int = parallel_option()
    json_file: Path | None = json_file_option()

    def costs(self) -> Costs:
        """Returns the costs of a calibration, otherwise the usual ones."""
        costs = read_costs(self.costs_file) if self.costs_file else Costs()
        return costs if self.link is None else replace(costs, link_mb_s=self.link)

    def run(self) -> None:
        costs = self.costs()
        runs = [
            StartupRun(
                design,
                size,
                each,
                arity=self.arity,
                chunk_bytes=self.chunk_bytes,
                object_bytes=self.object_bytes,
                table_bytes=self.table_bytes,
                order=self.order,
                costs=costs,
            )
            for size, each, design in product(self.nodes, self.tasks, self.designs)
        ]
        simulate(carry_out, runs, self.at_a_time, self.json_file, render)


def render(outcomes: Sequence[StartupOutcome]) -> str:
    """Returns one line a run, in milliseconds; ends with a newline."""
    lines = table(HEAD, map(_cells, outcomes), "<>>>>>>>>")
    return "\n".join(lines) + "\n"


def _cells(outcome: StartupOutcome) -> tuple[str, ...]:
    run, parts = outcome.run, outcome.parts_s()
    times_s = [*(parts[part] for part in PAPERS_ORDER), outcome.total_s]
    return (
        run.design,
        str(run.nodes),
        str(run.tasks),
        *(f"{each * 1e3:.2f}" for each in times_s),
    )
