"""Where messages alone bring nodes together: phases of the paper's rules (Yoo and Jette).

Two equal jobs have a rank on every node. Each node has the paper's rules, strict shares,
and a timer that begins at any time. Each sweep varies one thing. The others are 8 nodes, a
grain of 0.4 ms, a slice of 7.5 s, GMET 2 s, shares once in 100 ms, messages of 20 us:

nodes    2 to 16, at each GMET from 0.5 to 3.5 s
slice    4 to 30 s
scale    slice, GMET and work together, so that the slice has 0.5 to 15 s and GMET a third
grain    0.04 to 40 ms
period   of the share of an unscheduled job, 10 to 300 ms
message  5 us to 10 ms
timers   all nodes' timers begin within this time
pattern  which ranks wait for which
change   one change of the rules each (``variants``), at 4 and 8 nodes

The efficiency is the time of one job after the other divided by the time of both. A run
ends at twice the time that the jobs need. The spread over the seeds is the result:
the mean says little of a system with two states. A pull is to the minority if fewer than
half of the nodes run the job that asks.

The folder keeps each finished run; the same command continues. --docs writes the tables
into a page, between the lines <!-- phases: begin --> and <!-- phases: end -->.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiment import Bench, above_zero, in_one_line, simulate, write_figure
from benchmarks.experiments.claims import Claim, claims_table
from benchmarks.experiments.nodes.phase_cases import (
    APART,
    LINES,
    SWEEPS,
    TOGETHER,
    Ended,
    by_place,
    carry_out,
    cases_of,
    kernel_efficiencies,
)
from benchmarks.experiments.nodes.phase_claims import claims_of
from benchmarks.experiments.section import rewrite
from benchmarks.experiments.stored import Stored, keep
from benchmarks.pictures import picture
from benchmarks.results import Results
from cosched.core.units import NS_PER_S
from cosched.tables import markdown
from cosched.tables import table as text_table

PART = "phases"
#: With fewer seeds a point nothing is judged.
FEWEST_SEEDS = 20


def spread(values: Sequence[float]) -> str:
    """Returns the least, the median and the greatest in percent, and the numbers of runs
    together and apart; empty without values."""
    if not values:
        return ""
    low, middle, high = (
        f"{100 * one:.0f}" for one in (min(values), statistics.median(values), max(values))
    )
    if len(values) == 1:
        return middle
    together = sum(one >= TOGETHER for one in values)
    apart = sum(one <= APART for one in values)
    return f"{low}, {middle}, {high}: {together} / {apart}"


def tables(ended: Sequence[Ended]) -> str:
    """Returns a table for each sweep in Markdown."""
    blocks = []
    grid = by_place(ended, "nodes")
    if grid:
        gmets = list(dict.fromkeys(gmet for _, gmet in grid))
        rows = [
            (nodes, *(spread(grid.get((nodes, gmet), ())) for gmet in gmets))
            for nodes in dict.fromkeys(nodes for nodes, _ in grid)
        ]
        blocks += ["By nodes and GMET:", "", *markdown(("nodes", *gmets), rows), ""]
    for sweep in LINES:
        found = by_place(ended, sweep)
        if found:
            head = (sweep, *(place for (place,) in found))
            row = ("8 nodes", *(spread(values) for values in found.values()))
            blocks += [*markdown(head, [row]), ""]
    changes = by_place(ended, "change")
    if changes:
        counts = list(dict.fromkeys(nodes for _, nodes in changes))
        rows = [
            (name, *(spread(changes[name, nodes]) for nodes in counts))
            for name in dict.fromkeys(name for name, _ in changes)
        ]
        head = ("rules", *(f"{nodes} nodes" for nodes in counts))
        blocks += ["By rules:", "", *markdown(head, rows), ""]
    return "\n".join(blocks)


def text_of(ended: Sequence[Ended]) -> str:
    """Returns the spreads of all places as plain text."""
    rows = [
        (sweep, " ".join(place), spread(values))
        for sweep in SWEEPS
        for place, values in by_place(ended, sweep).items()
    ]
    head = ("", "", "least, median, greatest %: runs together / apart")
    return "\n".join(text_table(head, rows, "<<<")) + "\n"


def draw(document: Mapping[str, Any], path: Path) -> None:
    """Draws the distribution over the seeds at each place, a panel a sweep."""
    by_sweep = document["efficiencies"]
    shown = [sweep for sweep in SWEEPS if by_sweep.get(sweep)]
    with picture(path, size=(7, 2.4 * len(shown)), rows=len(shown)) as (figure, axes):
        for sweep, (panel,) in zip(shown, axes, strict=True):
            places = by_sweep[sweep]
            for at, (_place, values) in enumerate(places):
                beside = [at + 0.3 * (n / len(values) - 0.5) for n in range(len(values))]
                panel.plot(beside, values, "o", color="#2166ac", markersize=2.5, alpha=0.6)
            names = ["\n".join(place) for place, _ in places]
            panel.set_xticks(range(len(places)), names, fontsize=6)
            panel.set_ylim(0, 1.05)
            panel.set_ylabel("efficiency", fontsize=8)
            panel.set_title(f"by {sweep}", fontsize=9)
        figure.suptitle("Two jobs under the paper's rules, a point a seed", fontsize=10)


def parse(words: Sequence[str] | None) -> Any:
    bench = Bench("phases", __doc__, "--sweeps timers change --out FOLDER")
    add = bench.add_argument
    add("--sweeps", choices=SWEEPS, nargs="+", default=list(SWEEPS))
    add("--work", type=above_zero, default=15.0, help="CPU seconds of a rank (default 15)")
    bench.add_repeat(20, "seeds of each point")
    bench.add_parallel()
    bench.add_folder()
    add("--so-far", action="store_true", help="simulate nothing more")
    bench.add_page()
    return bench.parse(words)


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    with in_one_line("phases"):
        options.out.mkdir(parents=True, exist_ok=True)
        cases = cases_of(options.sweeps, options.repeat, round(options.work * NS_PER_S))
        results = Results(options.out / "phases.jsonl")
        if not options.so_far:
            left = results.left(list(dict.fromkeys(case.alike for case in cases)))
            simulate(
                carry_out, left, options.jobs, lambda one: results.add(one.run, one.result)
            )
        ended = [
            Ended(case, results.last(case.alike))
            for case in cases
            if results.all(case.alike)
        ]
        document = {
            "command": options.command,
            "efficiencies": {
                sweep: list(by_place(ended, sweep).items()) for sweep in options.sweeps
            },
            "runs": [{"case": one.run, **one.result} for one in ended],
        }
        write_figure(options.out / "phases", document, text_of(ended), draw, ["svg"])
        if options.docs is not None:
            seeds = min(map(len, by_place(ended, "nodes").values()), default=0)
            whole = {"nodes", "slice"} <= set(options.sweeps) and seeds >= FEWEST_SEEDS
            claims = claims_of(ended, kernel_efficiencies(seeds)) if whole else []
            shown = claims_table(claims) if whole else []
            rewrite(options.docs, PART, "\n".join([*shown, "", tables(ended)]))
            if whole:
                keep(options.docs, stored(options.docs, claims))


def stored(page: Path, claims: Sequence[Claim]) -> Stored:
    """Returns the claims with what the table of all papers shows of them."""
    return Stored(
        name=PART,
        page=page.name,
        how="simulated",
        command="scripts/dev bench phases",
        claims=tuple(claims),
        pictures=dict.fromkeys(("1", "2", "5", "6"), "figures/phases.svg"),
    )


if __name__ == "__main__":
    main()
