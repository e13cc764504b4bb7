"""Figures 3 to 10 of Tang et al. (IPDPS 2011): the cost when jobs of two machines
start together.

The compute machine runs a month of a log. Mira's log stands for Intrepid's, which is not
public. With --blocks its jobs get partitions, as on a Blue Gene, and its jobs wait 61
minutes at load 0.564, as Intrepid's did. The log of the analysis machine is generated.

by load (Figs. 3 to 6): the analysis machine at loads of 0.25, 0.5 and 0.75; 5% to 10% of
the compute machine's jobs are paired. by share (Figs. 7 to 10): 2.5% to 33% of all jobs are
paired; load 0.5.

In each: hold-hold, hold-yield, yield-hold, yield-yield (the compute machine's scheme
first), and no pairs at all as the base. The order is WFP with EASY backfill, the release
every 20 minutes. At a load of 0.5, hold-hold also runs without the release.

Each finished run is kept at once: the same command continues an interrupted experiment,
and --so-far shows what there is. Written are JSON with every run, a table of means, and a
picture a sweep. The claims of the paper stand beside the results; --docs writes them into a
page, between the lines <!-- hold_yield: begin --> and <!-- hold_yield: end -->.

Without a log the compute machine's workload is generated, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.experiment import Bench, in_one_line, simulate, write_json
from benchmarks.experiments.claims import Claim, claims_table
from benchmarks.experiments.hold_yield.cases import (
    BASE,
    COMBINATIONS,
    LOADS,
    NO_RELEASE,
    NO_RELEASE_AT,
    SHARES,
    Case,
    Ended,
    carry_out,
)
from benchmarks.experiments.hold_yield.claims import claims_of
from benchmarks.experiments.hold_yield.means import Means
from benchmarks.experiments.hold_yield.report import draw, table
from benchmarks.experiments.section import rewrite
from benchmarks.experiments.stored import Stored, keep
from benchmarks.results import Results

SWEEPS = {"load": LOADS, "share": SHARES}
PART = "hold_yield"


def cases_of(options: argparse.Namespace) -> list[Case]:
    """Returns all cases, repeat after repeat; in each, the longest first."""
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
        for repeat in range(options.repeat)
        for sweep in sorted(options.sweeps, reverse=True)
        for x in sorted(SWEEPS[sweep], reverse=True)
        for schemes in schemes_at(sweep, x)
    ]


def schemes_at(sweep: str, x: float) -> tuple[str, ...]:
    """Returns the schemes to simulate at a value of a sweep."""
    without = (NO_RELEASE,) if (sweep, x) == ("load", NO_RELEASE_AT) else ()
    return *COMBINATIONS, BASE, *without


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    bench = Bench("hold_yield", __doc__)
    add = bench.add_argument
    add("trace", type=Path, nargs="?", help="the compute machine's log")
    add("--load", type=float, default=0.564, help="of it (default 0.564)")
    add("--blocks", type=int, metavar="NODES", help="aligned blocks there, NODES or more")
    bench.add_repeat(10, "runs of each case")
    bench.add_parallel()
    add("--sweeps", choices=SWEEPS, nargs="+", default=list(SWEEPS))
    add("--jobs-generated", type=int, default=3000, help="without a log (default 3000)")
    bench.add_folder()
    add("--so-far", action="store_true", help="simulate nothing more")
    bench.add_page()
    return bench.parse(words)


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    with in_one_line("hold_yield"):
        carry_on(options)


def carry_on(options: argparse.Namespace) -> None:
    """Simulates the cases that are left, and writes what there is."""
    options.out.mkdir(parents=True, exist_ok=True)
    cases = cases_of(options)
    results = Results(options.out / "hold_yield.jsonl")
    if not options.so_far:
        left = results.left(cases)
        simulate(
            carry_out, left, options.jobs, lambda one: results.add(one.run, one.result)
        )
    ended = [Ended(case, results.last(case)) for case in results.done(cases)]
    means = Means(ended)
    rows = means.rows()
    runs = [{**asdict(one.run), "trace": str(one.run.trace), **one.result} for one in ended]
    document = {"command": options.command, "means": rows, "runs": runs}
    write_json(options.out / "hold_yield.json", document)
    text = table(rows)
    (options.out / "hold_yield.txt").write_text(text)
    for sweep in options.sweeps:
        draw(rows, sweep, options.out / f"hold_yield_by_{sweep}.png")
    print(text, end="")
    if set(options.sweeps) == set(SWEEPS):
        claims = claims_of(means)
        shown = "\n".join(claims_table(claims)) + "\n"
        (options.out / "hold_yield.md").write_text(shown)
        if options.docs:
            rewrite(options.docs, PART, shown)
            keep(options.docs, stored(options.docs, claims))
        print(shown, end="")


def stored(page: Path, claims: Sequence[Claim]) -> Stored:
    """Returns the claims with what the table of all papers shows of them."""
    pictures = {
        f"{figure}{part}": f"figures/hold_yield_by_{sweep}.png"
        for sweep, figures in (("load", range(3, 7)), ("share", range(7, 11)))
        for figure in figures
        for part in "ab"
    }
    return Stored(
        name=PART,
        page=page.name,
        how="simulated",
        command="scripts/dev bench hold_yield",
        claims=tuple(claims),
        pictures=pictures,
    )


if __name__ == "__main__":
    main()
