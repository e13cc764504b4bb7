"""``cosched sim nodes``: simulates the node's scheduler on many nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cosched.bench.simulate.virtual import SPREAD_NS, calibration_of, programs_of
from cosched.bench.workload.file import load_workload
from cosched.cli.declared import Command, argument, command, flag, is_given, option, part
from cosched.cli.options import PATH, json_file_option, parallel_option
from cosched.cli.sim.options import calibration_option, simulate
from cosched.cli.values import TIME, EnumChoice, Number, Whole, some_of
from cosched.core.node.knowledge import Expectation
from cosched.core.node.settings import Settings
from cosched.sim.nodes.expected import exact, read_lengths
from cosched.sim.nodes.model import Cluster, Pattern, Program
from cosched.sim.nodes.node_runs import ARMS, NodesOutcome, NodesRun, carry_out
from cosched.tables import table

HEAD = ("", "response", "makespan", "efficiency", "switches", "pulled")
#: The default arms.
EQUAL_JOBS = ("batch", "gang", "cosched")
WORKLOAD = ("batch", "kernel", "gang", "cosched", "messages")
#: Options for equal jobs alone, by their fields.
OF_EQUAL_JOBS = {
    "dom": "--dom",
    "pattern": "--pattern",
    "grain_ns": "--grain",
    "work_ns": "--work",
    "imbalance": "--imbalance",
}


def _time(word: str, help: str) -> Any:
    return option(word, type=TIME, help=help)


@command("nodes")
class Nodes(Command):
    """Run the node's scheduler on many simulated nodes (Yoo and Jette 2001).

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

    The efficiency is the time of the jobs one after the other, as in batch, / the
    makespan. It is above 100% where a job computes while another one waits for
    messages that are under way; a job alone leaves that time unused.

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

    workload: Path | None = argument(type=PATH, metavar="[WORKLOAD.toml]", required=False)
    cluster: Cluster = part(
        Cluster,
        nodes=option(
            type=Whole(1, 65536),
            default=64,
            help="For a workload by default those of its calibration.",
        ),
        message_ns=_time("--message", "Time that a message takes."),
        trap_ns=_time("--trap", "Time between two looks of an unscheduled rank."),
        switch_ns=_time("--switch", "Time that a switch takes."),
        clock_ns=_time("--clock", "Standard deviation of the nodes' clocks."),
        late_ns=_time("--late", "Mean delay of timers."),
        spread_ns=_time("--spread", "Time within which the ranks of a job start."),
    )
    dom: int = option(
        type=Whole(1, 50),
        default=4,
        help="Degree of multiprogramming: jobs at once.",
    )
    pattern: Pattern = option(
        type=EnumChoice(Pattern),
        default=Pattern.BULK,
        help="How ranks wait for each other.",
    )
    grain_ns: int = option(
        "--grain", type=TIME, default="1ms", help="CPU between messages."
    )
    work_ns: int = option("--work", type=TIME, default="10s", help="CPU time of a rank.")
    imbalance: float = option(
        type=Number(0.0, 1.0, max_open=True),
        default=0.0,
        help="Greatest share by which a rank is faster than the slowest.",
    )
    slice_: str = option("--slice", default="2s", help="Time slice, or auto.")
    gmet: str = option(default="100ms", help="Guaranteed time, or auto.")
    align: str = option(
        type=click.Choice(["on", "off"]),
        default="on",
        help="Start slices at multiples of the slice.",
    )
    arms: tuple[str, ...] | None = option(
        type=some_of(ARMS, "A,..."),
        help=f"Of {', '.join(ARMS)}; by default {','.join(EQUAL_JOBS)}, for a workload also"
        f" {', '.join(sorted(set(WORKLOAD) - set(EQUAL_JOBS)))}, and yield in place of"
        " kernel if the waits of its MPI yield.",
    )
    calibration: Path | None = calibration_option()
    strict: bool = flag(help="Time that the scheduled job does not use is lost.")
    expect: str = option(
        metavar="none|exact|FILE",
        default="none",
        help="What the nodes know of the jobs' lengths: nothing, the time alone, or earlier"
        ' runs in JSON, {"NAME": [SECONDS, ...]}.',
    )
    seed: int = option(type=int, default=1, help="Random seed.")
    at_a_time: int = parallel_option()
    json_file: Path | None = json_file_option()

    def __post_init__(self) -> None:
        """Raises UsageError for options that would have no effect."""
        if self.calibration is not None and self.workload is None:
            raise click.UsageError("--calibration is for a WORKLOAD.toml.")
        for name, word in OF_EQUAL_JOBS.items() if self.workload is not None else ():
            if is_given(name):
                raise click.UsageError(f"{word}: the jobs are those of the workload.")

    def run(self) -> None:
        settings = Settings().changed(
            {"slice": self.slice_, "gmet": self.gmet, "align": self.align}
        )
        cluster = replace(self.cluster, fills=not self.strict)
        usual: tuple[str, ...] = EQUAL_JOBS
        if self.workload is None:
            programs = _equal_jobs(self)
        else:
            known = calibration_of(self.workload, self.calibration)
            cluster = replace(
                cluster,
                nodes=(not is_given("nodes") and known.nodes) or cluster.nodes,
                spread_ns=cluster.spread_ns if is_given("spread_ns") else SPREAD_NS,
                same_ticks=known.lab,
            )
            programs = programs_of(load_workload(self.workload), known, cluster)
            alone = "yield" if known.yields else "kernel"
            usual = tuple(alone if arm == "kernel" else arm for arm in WORKLOAD)
        lengths = _expectations(self.expect, programs, cluster)
        runs = [
            NodesRun(arm, programs, cluster, settings, self.seed, expectations=lengths)
            for arm in self.arms or usual
        ]
        simulate(carry_out, runs, self.at_a_time, self.json_file, render)


def _equal_jobs(given: Nodes) -> tuple[Program, ...]:
    return tuple(
        Program(
            f"job{number}",
            given.pattern,
            given.grain_ns,
            given.work_ns,
            imbalance=given.imbalance,
        )
        for number in range(1, given.dom + 1)
    )


def _expectations(
    expect: str, programs: tuple[Program, ...], cluster: Cluster
) -> Mapping[str, Expectation]:
    if expect == "none":
        return {}
    if expect == "exact":
        return exact(programs, cluster)
    return read_lengths(Path(expect), [program.name for program in programs])


def render(outcomes: Sequence[NodesOutcome]) -> str:
    """Returns one line a run; ends with a newline.

    ``switches`` counts those of one node; ``pulled`` is the share that messages caused.
    """
    return "\n".join(table(HEAD, map(_cells, outcomes), "<>>>>>")) + "\n"


def _cells(outcome: NodesOutcome) -> tuple[str, ...]:
    counters = outcome.counters
    pulled = counters.get("sch_granted", 0)
    switches = pulled + counters.get("csw_switched", 0) + counters.get("turn_given", 0)
    share = f"{pulled / switches:.0%}" if switches else "-"
    return (
        outcome.run.name,
        f"{outcome.mean_response_s:.2f} s",
        f"{outcome.makespan_s:.2f} s",
        f"{outcome.efficiency:.1%}",
        f"{switches / outcome.run.cluster.nodes:.1f}" if counters else "",
        share if counters else "",
    )
