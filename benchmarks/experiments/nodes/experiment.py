"""Simulates coscheduling without a centre on 2 to 4,096 nodes.

The jobs are equal, with a rank on every node and a grain of 1 ms. All start at once, their
ranks within 20 ms of each other. Each of five sweeps varies one thing:

nodes    2 to 4,096, slices aligned and not
dom      degree of multiprogramming, 2 to 8
gmet     guaranteed minimum execution time
slice    the time slice
clock    the difference of the nodes' clocks, aligned

Each sweep compares cosched with gang: the ideal that one central driver would reach. The
kernel alone (spin, yield) is simulated grain by grain, so its jobs do a tenth of the work,
on up to ``--kernel-nodes`` nodes. The efficiency is the time of one job after the other
divided by the time until the last job ended. The output is JSON with every run, a table of
means over the repeats, and a picture.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.experiments.endings import in_one_line
from benchmarks.options import bench_parser
from cosched.core.node.settings import Settings
from cosched.core.units import NS_PER_MS, NS_PER_S, parse_duration
from cosched.sim.engine import Progress, no_progress
from cosched.sim.nodes.model import Cluster, Pattern, Program
from cosched.sim.nodes.runs import NodesOutcome, NodesRun, carry_out
from cosched.sim.parallel import carry_out_all
from cosched.sim.progress import open_progress

SWEEPS: dict[str, tuple[str, ...]] = {
    "nodes": ("2", "4", "16", "64", "256", "1024", "4096"),
    "dom": ("2", "3", "4", "5", "6", "8"),
    "gmet": ("10ms", "30ms", "100ms", "300ms", "1s", "2s"),
    "slice": ("250ms", "500ms", "1s", "2s", "4s"),
    "clock": ("0ms", "1ms", "10ms", "100ms", "500ms"),
}
PATTERNS = ("bulk", "wavefront", "alltoall")
#: Not simulated: these do not depend on a node's clock.
KERNEL = ("spin", "yield")
COLOURS = {
    "gang": "black",
    "aligned": "#2166ac",
    "free": "#ef8a62",
    "spin": "#b2182b",
    "yield": "#762a83",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation. way: gang, aligned, free (both cosched), spin or yield."""

    sweep: str
    x: str
    pattern: str
    way: str
    nodes: int
    work_ns: int
    seed: int

    @property
    def name(self) -> str:
        """The name in the progress display."""
        return f"{self.sweep} {self.x} {self.pattern} {self.way} #{self.seed}"


@dataclass(frozen=True, slots=True)
class Ended:
    """A case and its result."""

    run: Case
    outcome: NodesOutcome


def run_of(case: Case) -> NodesRun:
    """Returns the case as input of the simulator."""
    values = {case.sweep: case.x}
    nodes = int(values.get("nodes", case.nodes))
    settings = Settings().changed(
        {
            "align": "on" if case.way == "aligned" else "off",
            "slice": values.get("slice", "2s"),
            "gmet": values.get("gmet", "100ms"),
        }
    )
    clock_ns = parse_duration(values.get("clock", "100us"), "clock")
    programs = tuple(
        Program(f"job{number}", Pattern(case.pattern), NS_PER_MS, case.work_ns)
        for number in range(int(values.get("dom", "4")))
    )
    arm = case.way if case.way in ("gang", *KERNEL) else "cosched"
    return NodesRun(arm, programs, Cluster(nodes, clock_ns=clock_ns), settings, case.seed)


def simulate(case: Case, progress: Progress = no_progress) -> Ended:
    """Simulates a case."""
    return Ended(case, carry_out(run_of(case), progress))


def cases_of(options: argparse.Namespace) -> list[Case]:
    """Simulates all cases, the largest first, so that the cores end together."""
    cases = []
    for sweep in options.sweeps:
        for x in SWEEPS[sweep]:
            nodes = int(x) if sweep == "nodes" else options.nodes
            if nodes > options.most_nodes:
                continue
            ways = ["gang", "aligned"]
            if sweep != "clock" and nodes <= options.free_nodes:
                ways.append("free")
            if sweep in ("nodes", "dom") and nodes <= options.kernel_nodes:
                ways += KERNEL
            for pattern in options.patterns:
                for way in ways:
                    work_ns = round(options.work * NS_PER_S)
                    if way in KERNEL:
                        work_ns //= 10
                    cases += [
                        Case(sweep, x, pattern, way, nodes, work_ns, seed)
                        for seed in range(1, options.repeat + 1)
                    ]
    return sorted(cases, key=lambda case: -case.nodes)


def means(ended: Sequence[Ended]) -> list[dict[str, Any]]:
    """Returns a row for each sweep, value, pattern and way."""
    found: dict[tuple[str, str, str, str], list[NodesOutcome]] = defaultdict(list)
    for one in ended:
        case = one.run
        found[case.sweep, case.pattern, case.x, case.way].append(one.outcome)
    rows = []
    for (sweep, pattern, x, way), outcomes in found.items():
        nodes = outcomes[0].run.cluster.nodes
        pulled = sum(outcome.counters.get("sch_granted", 0) for outcome in outcomes)
        makespan_s = sum(outcome.makespan_s for outcome in outcomes)
        rows.append(
            {
                "sweep": sweep,
                "pattern": pattern,
                "x": x,
                "way": way,
                "efficiency": statistics.fmean(one.efficiency for one in outcomes),
                "least": min(one.efficiency for one in outcomes),
                "pulled_a_second": pulled / nodes / makespan_s,
            }
        )
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Efficiencies in percent; rows in the order of the sweeps."""
    cell = {(r["sweep"], r["pattern"], r["x"], r["way"]): r for r in rows}
    lines = []
    for sweep, values in SWEEPS.items():
        for pattern in PATTERNS:
            ways = [
                way
                for way in COLOURS
                if any((sweep, pattern, x, way) in cell for x in values)
            ]
            if not ways:
                continue
            lines.append(f"{sweep:<8}{pattern:<12}" + "".join(f"{way:>10}" for way in ways))
            for x in values:
                found = [cell.get((sweep, pattern, x, way)) for way in ways]
                if any(found):
                    texts = [
                        f"{one['efficiency']:>10.1%}" if one else " " * 10 for one in found
                    ]
                    lines.append(f"{x:>19} " + "".join(texts).rstrip())
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A line of panels for each pattern, a panel for each sweep."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    sweeps = [sweep for sweep in SWEEPS if any(row["sweep"] == sweep for row in rows)]
    patterns = [name for name in PATTERNS if any(row["pattern"] == name for row in rows)]
    figure, axes = plt.subplots(
        len(patterns),
        len(sweeps),
        figsize=(3.2 * len(sweeps), 2.6 * len(patterns)),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for pattern, line in zip(patterns, axes, strict=True):
        for sweep, panel in zip(sweeps, line, strict=True):
            for way, colour in COLOURS.items():
                here = {
                    row["x"]: row["efficiency"]
                    for row in rows
                    if (row["sweep"], row["pattern"], row["way"]) == (sweep, pattern, way)
                }
                places = [place for place, x in enumerate(SWEEPS[sweep]) if x in here]
                heights = [here[SWEEPS[sweep][place]] for place in places]
                panel.plot(places, heights, "o-", color=colour, label=way, markersize=3)
            panel.set_xticks(range(len(SWEEPS[sweep])), SWEEPS[sweep], fontsize=7)
            panel.set_title(f"{pattern}, by {sweep}", fontsize=9)
            panel.set_ylim(0.0, 1.25)
    axes[0][0].set_ylabel("efficiency")
    axes[0][0].legend(fontsize=7)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = bench_parser("nodes", __doc__)
    add = parser.add_argument
    add("--sweeps", choices=tuple(SWEEPS), nargs="+", default=list(SWEEPS))
    add("--patterns", choices=PATTERNS, nargs="+", default=list(PATTERNS))
    add("--nodes", type=int, default=64, help="in the other sweeps (default 64)")
    add("--most-nodes", type=int, default=4096, help="leave larger ones out")
    add("--kernel-nodes", type=int, default=256, help="most for spin, yield (default 256)")
    add("--free-nodes", type=int, default=1024, help="most for free (default 1024)")
    add("--work", type=float, default=4.0, help="CPU seconds of a rank (default 4)")
    add("--repeat", type=int, default=3, help="seeds of each (default 3)")
    add("--jobs", type=int, default=1, help="runs at a time (default 1)")
    add("--out", type=Path, required=True, help="folder for what is made")
    options = parser.parse_args(words)
    options.words = sys.argv[1:] if words is None else list(words)
    return options


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    with in_one_line("nodes"):
        carry_on(options)


def carry_on(options: argparse.Namespace) -> None:
    """Simulates, and writes the results."""
    options.out.mkdir(parents=True, exist_ok=True)
    cases = cases_of(options)
    with open_progress(sys.stderr, len(cases)) as report:
        ended = carry_out_all(simulate, cases, options.jobs, report)
    rows = means(ended)
    document = {
        "command": shlex.join(["scripts/dev", "bench", "nodes", *options.words]),
        "means": rows,
        "runs": [{"name": one.run.name, **one.outcome.document()} for one in ended],
    }
    (options.out / "nodes.json").write_text(json.dumps(document))
    text = table(rows)
    (options.out / "nodes.txt").write_text(text)
    draw(rows, options.out / "nodes.png")
    print(text, end="")
