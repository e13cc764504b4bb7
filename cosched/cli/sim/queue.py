"""``cosched sim``: the group of simulations, ``sim queue`` and ``sim generate``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

import click

from cosched.cli.files import check_writable, writing
from cosched.cli.groups import Group
from cosched.cli.options import choose, json_file_option, parallel_option
from cosched.cli.sim.options import (
    carry_out_runs,
    command_line,
    logs_argument,
    machine_option,
    save_option,
    seed_option,
    strict_option,
    write_results,
)
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.errors import CoschedError
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.logs.swf import write_swf
from cosched.sim.logs.workload import Estimates
from cosched.sim.queue.runs import Run, carry_out
from cosched.sim.queue.table import render

#: The commands of other files: the module in ``cosched.cli.sim``, and the variable there.
OTHERS = MappingProxyType(
    {
        "calibrate": ("calibrate", "calibrate_workload"),
        "couple": ("couple", "couple"),
        "fit": ("fit", "fit_log"),
        "malleable": ("malleable", "malleable"),
        "nodes": ("nodes", "nodes"),
        "share": ("share", "share"),
        "startup": ("startup", "startup"),
        "symbiosis": ("symbiosis", "symbiosis"),
    }
)


class SimGroup(Group):
    """A group whose commands of other files are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *OTHERS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in OTHERS:
            return super().get_command(ctx, cmd_name)
        module, variable = OTHERS[cmd_name]
        command = getattr(importlib.import_module(f"cosched.cli.sim.{module}"), variable)
        assert isinstance(command, click.Command)
        return command


@click.group("sim", cls=SimGroup)
def command() -> None:
    """Try scheduling decisions in virtual time.

    'sim nodes' and 'sim startup' run what also runs live: a node's scheduler,
    and the start of a job. The other commands run policies. A log of jobs, real
    or generated, takes the place of users and nodes. A year takes seconds.

    \b
    Examples:
      cosched sim generate year.swf --jobs 30000 --machine 128 --load 0.8
      cosched sim queue year.swf --policy easy
      cosched sim queue year.swf --policy easy,wfp,conservative --out out.json
      cosched sim couple compute.swf analysis.swf --pairs 2min
      cosched sim nodes --nodes 1024 --pattern bulk --dom 4
      cosched sim calibrate mine.toml
      cosched sim startup --nodes 248 --tasks 32
      cosched sim share KTH.swf.gz --dom 3
      cosched sim malleable sdsc --minimum 50,30
      cosched sim symbiosis stream --repeat 20

    Logs of real machines: https://www.cs.huji.ac.il/labs/parallel/workload/
    """


QUEUE_HELP = """\
Run logs through a batch queue.

A TRACE is a log in the Standard Workload Format, plain or gzipped.

\b
Policies:
  fcfs          first come, first served; no backfill
  easy          the same with EASY backfill
  conservative  the same with a reservation for every job
  wfp           highest (queued / walltime)^3 x size first, EASY backfill

All combinations of traces, policies and estimates are run, side by side on
the cores.

\b
Examples:
  cosched sim queue KTH.swf.gz --policy easy
  cosched sim queue KTH.swf CTC.swf --policy easy,wfp --estimates log,exact
  cosched sim queue KTH.swf.gz --save results --out all.json
  cosched sim queue mira.swf --policy wfp --blocks 512
"""


@command.command("queue", help=QUEUE_HELP)
@logs_argument("TRACE.swf[.gz]...")
@click.option(
    "--policy",
    "policies",
    callback=choose(tuple(POLICIES)),
    metavar="A,B",
    default="easy",
    help="One or several.",
)
@click.option(
    "--estimates",
    callback=choose(tuple(told.value for told in Estimates)),
    metavar="A,B",
    default="log",
    help="Run times that the policy expects: as users asked (log), or exact.",
)
@machine_option()
@click.option(
    "--blocks",
    type=click.IntRange(1),
    metavar="NODES",
    help="Jobs get aligned blocks of 1, 2, 4, ... times NODES nodes, like the partitions "
    "of a Blue Gene. Not with conservative.",
)
@strict_option
@parallel_option
@save_option
@click.option("--save-nodes", is_flag=True, help="With --save: each job's nodes, too.")
@json_file_option()
def queue(
    traces: tuple[Path, ...],
    policies: tuple[str, ...],
    estimates: tuple[str, ...],
    machine: int | None,
    blocks: int | None,
    strict: bool,
    at_a_time: int,
    save_in: Path | None,
    save_nodes: bool,
    json_file: Path | None,
) -> None:
    if save_nodes and save_in is None:
        raise click.UsageError("--save-nodes needs --save: it is a column there.")
    if blocks is not None and "conservative" in policies:
        raise click.UsageError(
            "--blocks: conservative plans with numbers of nodes, not with blocks."
        )
    words = command_line()
    runs = [
        Run(
            trace=trace,
            policy=policy,
            estimates=Estimates(told),
            machine=machine,
            unit=blocks,
            strict=strict,
            keep_nodes=save_nodes,
            save_in=save_in,
            command=words,
        )
        for trace in traces
        for policy in policies
        for told in estimates
    ]
    _check_files(runs, save_in, json_file)
    outcomes = carry_out_runs(carry_out, runs, at_a_time)
    document = {
        "runs": [outcome.document() for outcome in outcomes],
    }
    write_results(json_file, render(outcomes), document)


def _check_files(runs: Sequence[Run], save_in: Path | None, json_file: Path | None) -> None:
    """Raises CoschedError before the runs if their files cannot be written."""
    if save_in is not None:
        names = [run.name for run in runs]
        for name in names:
            if names.count(name) > 1:
                raise CoschedError(f"two runs would be saved as {name}; rename a trace")
        try:
            save_in.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CoschedError(f"{save_in}: cannot be made ({error.strerror})") from error
    check_writable(json_file)


@command.command("generate")
@click.argument("out", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--jobs", type=click.IntRange(1), required=True, help="How many.")
@click.option(
    "--machine", type=click.IntRange(1), required=True, help="Nodes of the machine."
)
@click.option(
    "--load",
    type=float,
    default=0.7,
    help="Node-seconds of the jobs / node-seconds of the machine.",
)
@seed_option()
def generate_log(out: Path, jobs: int, machine: int, load: float, seed: int) -> None:
    """Write a generated log of jobs.

    Arrivals depend on the hour of the day. Sizes are mostly powers of two. Run
    times are mostly short and sometimes very long. Walltimes are round numbers.
    The same options make the same log.

    \b
    Examples:
      cosched sim generate year.swf --jobs 30000 --machine 128
      cosched sim generate - --jobs 100 --machine 16 --load 1.2 --seed 7
    """
    workload = generate(Recipe(jobs=jobs, machine=machine, load=load, seed=seed))
    with writing(out) as stream:
        write_swf(workload, stream, [command_line()])
