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
import shlex
from collections.abc import Sequence
from typing import Any

from benchmarks.experiment import Bench, in_one_line, positive, simulate, write_figure
from benchmarks.experiments.section import check
from benchmarks.experiments.startup import page
from benchmarks.experiments.startup.documents import document, read, text
from benchmarks.experiments.startup.emulate import collect, costs, emulate, summaries
from benchmarks.experiments.startup.figures import draw
from benchmarks.experiments.startup.live_comparison import read_live
from benchmarks.experiments.startup.measure import measure
from benchmarks.experiments.startup.plans import MEASURED, TITLES, points_of


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    bench = Bench("startup", __doc__, "fig7 fig9a --out results")
    add = bench.add_argument
    add("figures", nargs="*", metavar="FIGURE", help=f"of {', '.join(TITLES)} (all)")
    bench.add_repeat(5, "runs of a case of CPU time")
    add("--most-nodes", type=positive, default=16384, help="emulate no larger jobs")
    bench.add_parallel()
    add("--redraw", action="store_true", help="measure and emulate nothing")
    bench.add_folder()
    bench.add_page()
    options = bench.parse(words)
    options.figures = options.figures or list(TITLES)
    for name in options.figures:
        if name not in TITLES:
            bench.error(f"'{name}' is none of {', '.join(TITLES)}")
    return options


def make(figure: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measures or emulates a figure."""
    command = shlex.join(["scripts/dev", "bench", "startup", figure])
    if figure in MEASURED:
        points, runs = measure(figure, options.repeat)
        return document(TITLES[figure], points, command, emulated=False, runs=runs)
    planned = [p for p in points_of(figure) if p.start.nodes <= options.most_nodes]
    done = simulate(emulate, planned, options.jobs)
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
            found = read(stem.with_suffix(".json")) if options.redraw else None
            found = found or make(figure, options)
            write_figure(stem, found, text(found), draw, ["svg"])
        if options.docs is not None:
            paths = {name: options.out / f"{name}.json" for name in TITLES}
            documents = {name: read(path) for name, path in paths.items() if path.exists()}
            page.write(options.docs, documents, live)


if __name__ == "__main__":
    main()
