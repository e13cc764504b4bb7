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
every 20 minutes.

Each finished run is kept at once: the same command continues an interrupted experiment,
and --so-far shows what there is. Written are JSON with every run, a table of means, and a
picture a sweep. The claims of the paper stand beside the results; --docs writes them into a
page, between the lines <!-- hold_yield: begin --> and <!-- hold_yield: end -->.

Without a log the compute machine's workload is generated, too.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.experiments.claims import claims_table
from benchmarks.experiments.endings import in_one_line
from benchmarks.experiments.hold_yield.cases import (
    BASE,
    COMBINATIONS,
    LOADS,
    SHARES,
    Case,
    Ended,
    carry_out,
)
from benchmarks.experiments.hold_yield.claims import claims_of
from benchmarks.experiments.hold_yield.means import Means
from benchmarks.experiments.hold_yield.report import draw, table
from benchmarks.experiments.section import rewrite
from benchmarks.options import bench_parser
from benchmarks.results import Results
from cosched.sim.parallel import Outcome, carry_out_all
from cosched.sim.progress import open_progress

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
        for schemes in (*COMBINATIONS, BASE)
    ]


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = bench_parser("hold_yield", __doc__)
    parser.add_argument("trace", type=Path, nargs="?", help="the compute machine's log")
    parser.add_argument("--load", type=float, default=0.564, help="of it (default 0.564)")
    parser.add_argument(
        "--blocks", type=int, metavar="NODES", help="aligned blocks there, of NODES or more"
    )
    parser.add_argument("--repeat", type=int, default=10, help="of each (default 10)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
    parser.add_argument("--sweeps", choices=SWEEPS, nargs="+", default=list(SWEEPS))
    parser.add_argument(
        "--jobs-generated", type=int, default=3000, help="without a log (default 3000)"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for what is made")
    parser.add_argument("--so-far", action="store_true", help="simulate nothing more")
    parser.add_argument("--docs", type=Path, help="a page, of which a part is rewritten")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    with in_one_line("hold_yield"):
        carry_on(options)


def carry_on(options: argparse.Namespace) -> None:
    """Everything, once it is known what is wanted."""
    options.out.mkdir(parents=True, exist_ok=True)
    cases = cases_of(options)
    kept = Results(options.out / "hold_yield.jsonl")
    if not options.so_far:
        simulate_left(kept.left(cases), kept, options.jobs)
    ended = [Ended(case, kept.last(case)) for case in kept.done(cases)]
    means = Means(ended)
    document = {
        "command": shlex.join(["scripts/dev", "bench", "hold_yield", *sys.argv[1:]]),
        "means": means.rows(),
        "runs": [
            {**asdict(one.run), "trace": str(one.run.trace), **one.result} for one in ended
        ],
    }
    (options.out / "hold_yield.json").write_text(json.dumps(document))
    text = table(means.rows())
    (options.out / "hold_yield.txt").write_text(text)
    for sweep in options.sweeps:
        draw(means.rows(), sweep, options.out / f"hold_yield_by_{sweep}.png")
    print(text, end="")
    if set(options.sweeps) == set(SWEEPS):
        claims = "\n".join(claims_table(claims_of(means))) + "\n"
        (options.out / "hold_yield.md").write_text(claims)
        if options.docs:
            rewrite(options.docs, PART, claims)
        print(claims, end="")


def simulate_left(cases: Sequence[Case], kept: Results, jobs: int) -> None:
    """Simulates these cases and keeps each result at once."""
    with open_progress(sys.stderr, len(cases)) as report:

        def note(done: float, outcome: Outcome | None) -> None:
            if isinstance(outcome, Ended):
                kept.add(outcome.run, outcome.result)
            report(done, outcome)

        carry_out_all(carry_out, cases, jobs, note)
