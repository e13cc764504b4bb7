"""Figures 3 to 10 of Tang et al. (IPDPS 2011): the cost when jobs of two machines
start together.

The compute machine runs a month of a log, its arrivals stretched or squeezed to the load
that is asked for. Mira's log stands for Intrepid's, which is not public; at load 0.55 its
jobs wait about as long as Intrepid's did. The log of the analysis machine (Eureka, 100
nodes) is generated; each repeat has another one.

by load (Figs. 3 to 6): the analysis machine at loads of 0.25, 0.5 and 0.75; jobs submitted
within two minutes are pairs. Its jobs are a third as many as the compute machine's at load
0.5, which makes 3% to 8% of all jobs paired; 5% to 10% in the paper.

by share (Figs. 7 to 10): as many jobs as the compute machine has, each submitted up to two
minutes after one of its; every k-th is paired, for 2.5% to 33%; load 0.5.

In each: hold-hold, hold-yield, yield-hold, yield-yield (the compute machine's scheme
first), and no pairs at all as the base. The order is WFP with EASY backfill, the release
every 20 minutes. Written are JSON with every run, a table of means, and a picture a sweep.

Without a log the compute machine's workload is generated, too.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.experiments.endings import in_one_line
from benchmarks.experiments.hold_yield.report import draw, table
from benchmarks.options import bench_parser
from cosched.core.cluster.coupling.settings import CouplingSettings, Scheme
from cosched.core.units import NS_PER_S
from cosched.sim.coupled.pairs import VICINITY_NS, by_share, by_vicinity
from cosched.sim.coupled.runs import Coupled, Coupling, simulate
from cosched.sim.engine import Progress, no_progress
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.logs.swf import read_swf
from cosched.sim.logs.workload import Workload
from cosched.sim.parallel import carry_out_all
from cosched.sim.progress import open_progress

DAY_NS = 86400 * NS_PER_S
MONTH_NS = 30 * DAY_NS
NAMES = ("compute", "analysis")
LOADS = (0.25, 0.5, 0.75)
SHARES = (0.025, 0.05, 0.1, 0.2, 0.33)
COMBINATIONS = ("HH", "HY", "YH", "YY")
BASE = "none"
ANALYSIS_NODES = 100
SCHEMES = {"H": Scheme.HOLD, "Y": Scheme.YIELD}


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation. sweep: ``load`` or ``share``; x: its value there."""

    sweep: str
    x: float
    schemes: str
    repeat: int
    trace: Path | None
    compute_load: float
    generated_jobs: int
    unit: int | None

    @property
    def name(self) -> str:
        """For the progress display."""
        return f"{self.sweep} {self.x:g} {self.schemes} #{self.repeat}"


@dataclass(frozen=True, slots=True)
class Ended:
    """A case and its result."""

    run: Case
    result: Coupled


def load_of(log: Workload) -> float:
    """Node-seconds asked for / node-seconds there while jobs are submitted."""
    asked = sum(size * run for size, run in zip(log.size, log.run_ns, strict=True))
    return asked / (log.machine * (log.submit_ns[-1] - log.submit_ns[0]))


def stretched(log: Workload, load: float) -> Workload:
    """The log with all arrival intervals multiplied so that it offers this load."""
    factor = load_of(log) / load
    copy = replace(log)
    copy.submit_ns = type(log.submit_ns)(
        "q", [round((at_ns - log.submit_ns[0]) * factor) for at_ns in log.submit_ns]
    )
    return copy


def compute_workload(case: Case) -> Workload:
    """A month of the compute machine."""
    if case.trace is None:
        recipe = Recipe(case.generated_jobs, 2048, case.compute_load, seed=99)
        return generate(recipe)
    whole = stretched(read_swf(case.trace, skip_bad=True).workload, case.compute_load)
    # Load differs from month to month; the one that is nearest to the whole is typical.
    months = [
        whole.moved(-begin_ns, begin_ns, begin_ns + MONTH_NS)
        for begin_ns in range(0, whole.submit_ns[-1] - MONTH_NS + 1, MONTH_NS)
    ]
    typical = min(months, key=lambda log: abs(load_of(log) - case.compute_load))
    return stretched(typical, case.compute_load)


def analysis_workload(case: Case, compute: Workload) -> Workload:
    """A month of the analysis machine."""
    span_s = compute.submit_ns[-1] // NS_PER_S
    medium = len(compute) if case.sweep == "share" else len(compute) // 3
    # Run times such that so many jobs make a load of 0.5; more jobs make more load.
    plain = Recipe(2000, ANALYSIS_NODES, seed=1)
    pilot = generate(plain)
    work_s = sum(
        size * run / NS_PER_S for size, run in zip(pilot.size, pilot.run_ns, strict=True)
    ) / len(pilot)
    scale = 0.5 * ANALYSIS_NODES * span_s / (medium * work_s)
    recipe = replace(
        plain,
        seed=1000 + case.repeat,
        load=case.x if case.sweep == "load" else 0.5,
        jobs=max(1, round(medium * case.x / 0.5)) if case.sweep == "load" else medium,
        run_scale_s=plain.run_scale_s * scale,
    )
    log = generate(recipe)
    if case.sweep == "share":
        chance = Random(case.repeat)
        late = range(VICINITY_NS // NS_PER_S)
        submits = [at_ns + chance.choice(late) * NS_PER_S for at_ns in compute.submit_ns]
        log.submit_ns = type(log.submit_ns)("q", sorted(submits))
    return log


def settings_of(schemes: str) -> list[CouplingSettings]:
    """For each machine; without schemes, coscheduling is off."""
    if schemes == BASE:
        return [CouplingSettings(enabled=False)] * 2
    return [CouplingSettings(scheme=SCHEMES[letter]) for letter in schemes]


def carry_out(case: Case, progress: Progress = no_progress) -> Ended:
    """Makes the workloads of a case and simulates."""
    compute = compute_workload(case)
    logs = [compute, analysis_workload(case, compute)]
    mates = by_vicinity(logs) if case.sweep == "load" else by_share(logs, case.x)
    units = {} if case.unit is None else {NAMES[0]: case.unit}
    how = Coupling(units=units)
    settings = settings_of(case.schemes)
    result = simulate(logs, NAMES, mates, settings, how, progress)
    return Ended(case, replace(result, schedules=()))


def cases_of(options: argparse.Namespace) -> list[Case]:
    """Returns all cases, the longest first, so that the cores end together."""
    values = {"load": LOADS, "share": SHARES}
    return [
        Case(
            sweep,
            x,
            schemes,
            repeat,
            options.trace,
            options.load,
            options.jobs_generated,
            options.blocks,
        )
        for sweep in ("share", "load")
        for x in sorted(values[sweep], reverse=True)
        for schemes in (*COMBINATIONS, BASE)
        for repeat in range(options.repeat)
        if sweep in options.sweeps
    ]


def means(ended: Sequence[Ended]) -> list[dict[str, Any]]:
    """A row for each sweep, value, combination and machine: means over the repeats."""
    found: dict[tuple[str, float, str], list[Coupled]] = defaultdict(list)
    for one in ended:
        found[one.run.sweep, one.run.x, one.run.schemes].append(one.result)
    rows = []
    for (sweep, x, schemes), results in sorted(found.items()):
        for machine in NAMES:
            figures = [result.domains[machine] for result in results]
            rows.append(
                {
                    "sweep": sweep,
                    "x": x,
                    "schemes": schemes,
                    "machine": machine,
                    "repeats": len(results),
                    "groups": sum(result.groups for result in results),
                    "together": sum(result.together for result in results),
                    "stuck": sum(result.stuck for result in results),
                    **{
                        name: statistics.fmean(figure[name] for figure in figures)
                        for name in figures[0]
                    },
                }
            )
    return rows


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = bench_parser("hold_yield", __doc__)
    parser.add_argument("trace", type=Path, nargs="?", help="the compute machine's log")
    parser.add_argument("--load", type=float, default=0.55, help="of it (default 0.55)")
    parser.add_argument(
        "--blocks", type=int, metavar="NODES", help="aligned blocks there, of NODES or more"
    )
    parser.add_argument("--repeat", type=int, default=10, help="of each (default 10)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
    parser.add_argument(
        "--sweeps", choices=("load", "share"), nargs="+", default=["load", "share"]
    )
    parser.add_argument(
        "--jobs-generated", type=int, default=3000, help="without a log (default 3000)"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for what is made")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    with in_one_line("hold_yield"):
        carry_on(options)


def carry_on(options: argparse.Namespace) -> None:
    """Everything, once it is known what is wanted."""
    options.out.mkdir(parents=True, exist_ok=True)
    cases = cases_of(options)
    with open_progress(sys.stderr, len(cases)) as report:
        ended = carry_out_all(carry_out, cases, options.jobs, report)
    rows = means(ended)
    document = {
        "command": shlex.join(["scripts/dev", "bench", "hold_yield", *sys.argv[1:]]),
        "means": rows,
        "runs": [
            {**asdict(one.run), "trace": str(one.run.trace), **one.result.document()}
            for one in ended
        ],
    }
    (options.out / "hold_yield.json").write_text(json.dumps(document))
    text = table(rows)
    (options.out / "hold_yield.txt").write_text(text)
    for sweep in options.sweeps:
        draw(rows, sweep, options.out / f"hold_yield_by_{sweep}.png")
    print(text, end="")
