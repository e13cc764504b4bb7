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
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.experiment import (
    Bench,
    above_zero,
    in_one_line,
    positive,
    simulate,
    write_figure,
)
from benchmarks.pictures import picture
from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.core.units import NS_PER_MS, NS_PER_S, parse_duration
from cosched.sim.nodes.model import Cluster, Pattern, Program
from cosched.sim.nodes.node_runs import NodesOutcome, NodesRun, carry_out
from cosched.sim.virtual_time import Progress, no_progress
from cosched.tables import table as text_table

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
WAYS = tuple(COLOURS)


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation."""

    sweep: str  #: a key of SWEEPS
    x: str  #: its value in the sweep, with the unit
    pattern: str  #: which ranks wait for which, one of PATTERNS
    way: str  #: gang, aligned, free (both cosched), spin or yield
    nodes: int  #: the number of nodes, also if the sweep gives it
    work_ns: int  #: CPU time of each rank
    seed: int  #: the number of the repeat, from 1

    @property
    def name(self) -> str:
        """The name in the progress display."""
        return f"{self.sweep} {self.x} {self.pattern} {self.way} #{self.seed}"


@dataclass(frozen=True, slots=True)
class Ended:
    """A case and its result."""

    run: Case  #: the case
    outcome: NodesOutcome  #: the result of the simulator


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


def simulate_case(case: Case, progress: Progress = no_progress) -> Ended:
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
    if not cases:
        most = options.most_nodes
        raise CoschedError(f"no sweep has {most} nodes or less; give more --most-nodes")
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
    for (sweep, values), pattern in product(SWEEPS.items(), PATTERNS):
        places = [x for x in values if any(cell.get((sweep, pattern, x, w)) for w in WAYS)]
        ways = [w for w in WAYS if any((sweep, pattern, x, w) in cell for x in values)]
        found = [[cell.get((sweep, pattern, x, way)) for way in ways] for x in places]
        texts = [
            (x, "", *(f"{one['efficiency']:.1%}" if one else "" for one in line))
            for x, line in zip(places, found, strict=True)
        ]
        if texts:
            lines += text_table((sweep, pattern, *ways), texts, "<<" + ">" * len(ways))
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A line of panels for each pattern, a panel for each sweep."""
    sweeps = [sweep for sweep in SWEEPS if any(row["sweep"] == sweep for row in rows)]
    patterns = [name for name in PATTERNS if any(row["pattern"] == name for row in rows)]
    size = (3.2 * len(sweeps), 2.6 * len(patterns))
    with picture(
        path, size=size, rows=len(patterns), columns=len(sweeps), share_y=True
    ) as (_, axes):
        for pattern, line in zip(patterns, axes, strict=True):
            for sweep, panel in zip(sweeps, line, strict=True):
                for way, colour in COLOURS.items():
                    here = {
                        row["x"]: row["efficiency"]
                        for row in rows
                        if (row["sweep"], row["pattern"], row["way"])
                        == (sweep, pattern, way)
                    }
                    places = [place for place, x in enumerate(SWEEPS[sweep]) if x in here]
                    heights = [here[SWEEPS[sweep][place]] for place in places]
                    panel.plot(places, heights, "o-", color=colour, label=way, markersize=3)
                panel.set_xticks(range(len(SWEEPS[sweep])), SWEEPS[sweep], fontsize=7)
                panel.set_title(f"{pattern}, by {sweep}", fontsize=9)
                panel.set_ylim(0.0, 1.25)
        axes[0][0].set_ylabel("efficiency")
        axes[0][0].legend(fontsize=7)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    bench = Bench("nodes", __doc__)
    add = bench.add_argument
    add("--sweeps", choices=tuple(SWEEPS), nargs="+", default=list(SWEEPS))
    add("--patterns", choices=PATTERNS, nargs="+", default=list(PATTERNS))
    add("--nodes", type=positive, default=64, help="in the other sweeps (default 64)")
    add("--most-nodes", type=int, default=4096, help="leave larger ones out")
    add("--kernel-nodes", type=int, default=256, help="most for spin, yield (default 256)")
    add("--free-nodes", type=int, default=1024, help="most for free (default 1024)")
    add("--work", type=above_zero, default=4.0, help="CPU seconds of a rank (default 4)")
    bench.add_repeat(3, "seeds of each")
    bench.add_parallel()
    bench.add_folder()
    return bench.parse(words)


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    with in_one_line("nodes"):
        options.out.mkdir(parents=True, exist_ok=True)
        ended = simulate(simulate_case, cases_of(options), options.jobs)
        document = {
            "command": options.command,
            "means": means(ended),
            "runs": [{"name": one.run.name, **one.outcome.document()} for one in ended],
        }
        write_figure(
            options.out / "nodes",
            document,
            table(document["means"]),
            lambda found, path: draw(found["means"], path),
            ["png"],
        )


if __name__ == "__main__":
    main()
