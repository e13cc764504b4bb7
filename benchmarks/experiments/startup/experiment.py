"""Figures 7 to 11 of Brelsford et al. (JSSPP 2010): partitioned scheduling.

fig7, fig8: memory and CPU time of the central part, really measured, each case in a process
of its own. fig9, fig10, fig11: dispatch time, tables and job object, emulated
(``cosched sim startup``) with the paper's bandwidth. Up to 496 nodes all emulated points
have nine sets of costs, since the paper has no value for most of them.

Each figure leaves FIGURE.json, .txt and .svg in the folder. Live figures, live-FIGURE.json
in the same folder, are set beside the emulator. --docs writes the results that the folder
has into a page, between <!-- brelsford: begin --> and <!-- brelsford: end -->.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiments.endings import in_one_line
from benchmarks.experiments.section import check
from benchmarks.experiments.startup import page
from benchmarks.experiments.startup.documents import document, read, text
from benchmarks.experiments.startup.emulate import collect, costs, emulate, summaries
from benchmarks.experiments.startup.figures import draw
from benchmarks.experiments.startup.live import read_live
from benchmarks.experiments.startup.measure import measure
from benchmarks.experiments.startup.plans import MEASURED, TITLES, Emulated, points_of
from benchmarks.options import bench_parser
from cosched.sim.parallel import carry_out_all
from cosched.sim.progress import open_progress


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = bench_parser("startup", __doc__, "fig7 fig9a --out results")
    add = parser.add_argument
    add("figures", nargs="*", metavar="FIGURE", help=f"of {', '.join(TITLES)} (all)")
    add("--repeat", type=int, default=5, help="runs of a case of CPU time (default 5)")
    add("--most-nodes", type=int, default=16384, help="emulate no larger jobs")
    add("--jobs", type=int, default=1, help="emulations at a time (default 1)")
    add("--redraw", action="store_true", help="measure and emulate nothing")
    add("--out", type=Path, required=True, help="folder for what is made")
    add("--docs", type=Path, metavar="PAGE", help="write the results into this page")
    options = parser.parse_args(words)
    options.figures = options.figures or list(TITLES)
    for name in options.figures:
        if name not in TITLES:
            parser.error(f"'{name}' is none of {', '.join(TITLES)}")
    if min(options.repeat, options.most_nodes, options.jobs) < 1:
        parser.error("--repeat, --most-nodes and --jobs: 1 or more")
    return options


def make(figure: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measures or emulates a figure."""
    command = shlex.join(["scripts/dev", "bench", "startup", figure])
    if figure in MEASURED:
        return _measured(figure, command, options.repeat)
    return _emulated(figure, command, options)


def _measured(figure: str, command: str, repeat: int) -> dict[str, Any]:
    def report(share: float, case: str) -> None:
        if sys.stderr.isatty():
            print(f"\r{figure} {share:4.0%} {case:<40}", end="", file=sys.stderr)

    points, runs = measure(figure, repeat, report)
    return document(TITLES[figure], points, command, emulated=False, runs=runs)


def _emulated(figure: str, command: str, options: argparse.Namespace) -> dict[str, Any]:
    runs: list[Emulated] = [
        point for point in points_of(figure) if point.start.nodes <= options.most_nodes
    ]
    with open_progress(sys.stderr, len(runs)) as report:
        done = carry_out_all(emulate, runs, options.jobs, report)
    return document(
        TITLES[figure],
        collect(done),
        command,
        emulated=True,
        costs=costs(),
        summary=summaries(done),
    )


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    with in_one_line("startup"):
        if options.docs is not None:
            check(options.docs, page.PART)
        options.out.mkdir(parents=True, exist_ok=True)
        live = read_live(options.out)
        for figure in options.figures:
            stem = options.out / figure
            if not options.redraw:
                made = make(figure, options)
                stem.with_suffix(".json").write_text(json.dumps(made, indent=1) + "\n")
            found = read(stem.with_suffix(".json"))
            stem.with_suffix(".txt").write_text(text(found))
            draw(found, stem.with_suffix(".svg"))
            print(text(found), flush=True)
        if options.docs is not None:
            paths = {name: options.out / f"{name}.json" for name in TITLES}
            documents = {name: read(path) for name, path in paths.items() if path.exists()}
            page.write(options.docs, documents, live)
