"""``cosched sim nodes``: simulates the node's scheduler on many nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from cosched.bench.simulate.virtual import SPREAD_NS, calibration_of, programs_of
from cosched.bench.workload.file import load_workload
from cosched.cli.files import check_writable
from cosched.cli.options import json_file_option, parallel_option
from cosched.cli.sim.calibrate import calibration_option
from cosched.cli.sim.options import carry_out_runs, write_results
from cosched.core.node.knowledge import Expectation
from cosched.core.node.settings import Settings
from cosched.core.units import parse_duration
from cosched.sim.nodes.expected import exact, read_lengths
from cosched.sim.nodes.model import Cluster, Pattern, Program
from cosched.sim.nodes.runs import ARMS, NodesRun, carry_out
from cosched.sim.nodes.table import render

HELP = """\
Run the node's scheduler on many simulated nodes (Yoo and Jette 2001).

Equal jobs, each with a rank on every node, share the nodes. Each arm is another
way to share them:

\b
  cosched   the live scheduler on every node
  messages  the paper's rules on every node; ranks spin in all waits
  paper     the same with the paper's strict shares
  gang      an ideal central driver that switches all nodes at once
  batch     one job after the other
  kernel    the kernel alone; waiting ranks spin
  yield     the kernel alone; waiting ranks yield

With WORKLOAD.toml, a file as for cosched bench, its jobs run instead. A
calibration (see 'cosched sim calibrate') describes how they communicate, or the
model of a job does:

\b
  [[job]]
  name = "solver"
  command = "./solver"
  ranks = 2
  model = { pattern = "bulk", alone = 12.5, messages = 4000 }

\b
Patterns:
  bulk       all ranks meet after each grain
  wavefront  a pipeline over a grid of ranks
  alltoall   each rank receives from all others after each grain
  none       ranks do not communicate

kernel and yield simulate every grain: use less --work on many nodes.

\b
Examples:
  cosched sim nodes --nodes 64 --dom 4
  cosched sim nodes --nodes 1024 --pattern wavefront --align off --gmet 50ms
  cosched sim nodes --nodes 16 --work 1s --arms cosched,kernel,yield
  cosched sim nodes benchmarks/workloads/lab/workload2.toml
  cosched sim nodes benchmarks/workloads/lab/workload2.toml --expect exact
  cosched sim nodes --nodes 256 --clock 5ms --out out.json
"""


#: The default arms.
EQUAL_JOBS = ("batch", "gang", "cosched")
WORKLOAD = ("batch", "kernel", "gang", "cosched", "messages")
#: Options for equal jobs alone.
OF_EQUAL_JOBS = ("dom", "pattern", "grain", "work", "imbalance")


@click.command("nodes", help=HELP, short_help="The node's scheduler on many nodes.")
@click.argument(
    "workload", type=click.Path(path_type=Path), metavar="[WORKLOAD.toml]", required=False
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 65536),
    help="By default 64, or those of the workload's calibration.",
)
@click.option(
    "--dom",
    type=click.IntRange(1, 50),
    default=4,
    show_default=True,
    help="Degree of multiprogramming: jobs at once.",
)
@click.option(
    "--pattern",
    type=click.Choice([pattern.value for pattern in Pattern]),
    default="bulk",
    show_default=True,
)
@click.option("--grain", default="1ms", show_default=True, help="CPU between messages.")
@click.option("--work", default="10s", show_default=True, help="CPU time of a rank.")
@click.option(
    "--imbalance",
    type=click.FloatRange(0.0, 1.0, max_open=True),
    default=0.0,
    show_default=True,
    help="Greatest share by which a rank is faster than the slowest.",
)
@click.option(
    "--slice", "slice_", default="2s", show_default=True, help="Time slice, or auto."
)
@click.option(
    "--gmet", default="100ms", show_default=True, help="Guaranteed time, or auto."
)
@click.option("--align", type=click.Choice(["on", "off"]), default="on", show_default=True)
@click.option(
    "--arms",
    metavar="A,...",
    help=f"Of {', '.join(ARMS)}; by default {','.join(EQUAL_JOBS)}, for a workload also "
    f"{', '.join(sorted(set(WORKLOAD) - set(EQUAL_JOBS)))}.",
)
@calibration_option
@click.option(
    "--message", default="20us", show_default=True, help="Time that a message takes."
)
@click.option(
    "--trap",
    default="1ms",
    show_default=True,
    help="Time between two looks of an unscheduled rank.",
)
@click.option(
    "--switch", default="1ms", show_default=True, help="Time that a switch takes."
)
@click.option(
    "--clock",
    default="100us",
    show_default=True,
    help="Standard deviation of the nodes' clocks.",
)
@click.option("--late", default="100us", show_default=True, help="Mean delay of timers.")
@click.option(
    "--spread",
    default="20ms",
    show_default=True,
    help="Time within which the ranks of a job start.",
)
@click.option(
    "--strict", is_flag=True, help="Time that the scheduled job does not use is lost."
)
@click.option(
    "--expect",
    metavar="none|exact|FILE",
    default="none",
    show_default=True,
    help="What the nodes know of the jobs' lengths: nothing, the time alone, or earlier "
    'runs in JSON, {"NAME": [SECONDS, ...]}.',
)
@click.option("--seed", type=int, default=1, show_default=True)
@parallel_option
@json_file_option()
def nodes(
    workload: Path | None,
    nodes: int | None,
    dom: int,
    pattern: str,
    grain: str,
    work: str,
    imbalance: float,
    slice_: str,
    gmet: str,
    align: str,
    arms: str | None,
    calibration: Path | None,
    strict: bool,
    expect: str,
    seed: int,
    at_a_time: int,
    json_file: Path | None,
    **times: str,
) -> None:
    check_writable(json_file)
    settings = Settings().changed({"slice": slice_, "gmet": gmet, "align": align})
    _check_given(workload is not None, calibration)
    known = calibration_of(workload, calibration) if workload else None
    cluster = Cluster(
        nodes or (known.nodes if known else 64),
        fills=not strict,
        same_ticks=known is not None and known.lab,
        **{f"{name}_ns": parse_duration(text, f"--{name}") for name, text in times.items()},
    )
    programs: tuple[Program, ...]
    if workload is not None and known is not None:
        if _source("spread") is ParameterSource.DEFAULT:
            cluster = replace(cluster, spread_ns=SPREAD_NS)
        programs = programs_of(load_workload(workload), known, cluster)
    else:
        programs = tuple(
            Program(
                f"job{number}",
                Pattern(pattern),
                parse_duration(grain, "--grain"),
                parse_duration(work, "--work"),
                imbalance=imbalance,
            )
            for number in range(1, dom + 1)
        )
    wanted = _arms(arms) if arms else (WORKLOAD if workload else EQUAL_JOBS)
    known_lengths = _expectations(expect, programs, cluster)
    runs = [
        NodesRun(arm, programs, cluster, settings, seed, expectations=known_lengths)
        for arm in wanted
    ]
    outcomes = carry_out_runs(carry_out, runs, at_a_time)
    document = {"runs": [outcome.document() for outcome in outcomes]}
    write_results(json_file, render(outcomes), document)


def _expectations(
    expect: str, programs: tuple[Program, ...], cluster: Cluster
) -> Mapping[str, Expectation]:
    if expect == "none":
        return {}
    if expect == "exact":
        return exact(programs, cluster)
    return read_lengths(Path(expect), [program.name for program in programs])


def _source(option: str) -> ParameterSource | None:
    return click.get_current_context().get_parameter_source(option)


def _check_given(has_workload: bool, calibration: Path | None) -> None:
    """Raises UsageError for options that would have no effect."""
    if calibration is not None and not has_workload:
        raise click.UsageError("--calibration is for a WORKLOAD.toml.")
    for option in OF_EQUAL_JOBS if has_workload else ():
        if _source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{option}: the jobs are those of the workload.")


def _arms(text: str) -> list[str]:
    arms = [arm.strip() for arm in text.split(",")]
    for arm in arms:
        if arm not in ARMS:
            raise click.UsageError(f"--arms: '{arm}' is none of {', '.join(ARMS)}.")
    return arms
