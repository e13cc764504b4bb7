"""Figures 5 to 16 and Tables 2 and 3 of Weissman, Rao Abburi and England (2003): jobs that
give up nodes so that others start.

system-centric (Figs. 9 to 14, Table 2): streams of the model that was fitted to SDSC's log,
on 128 nodes, at the model's own load; run times follow the nodes linearly or along a
parabola; changes are free.

user-centric (Figs. 15 and 16, Table 3): the problems of the paper's Table 1 on 64 nodes,
each change at its cost; GE, and STEN, GE and CL mixed.

In full, 100 streams of 10,000 jobs for each point (two hours on one core). It can be
interrupted: the same command goes on; so does one with more streams. --so-far makes do with
the results so far, also during a run.
Without names of figures, all. FQ holds what the queue does not want. --given: as if FQ gave
it to running jobs; Figs. 9 to 13 and Table 2, claims and table alone. Written are JSON with
every point, a picture for each figure, the tables, and the claims of the paper beside the
results. --docs writes claims and tables into a page, between the lines <!-- PART: begin -->
and <!-- PART: end -->.

--log FILE...: Figures 5 to 8 instead, the models fitted to these logs beside the logs.
--shares as well: the logs themselves instead, with 0 to 100% malleable jobs.
--predictions: instead, the gain by better knowledge of run times (10 streams).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.experiment import Bench, in_one_line, positive, simulate, write_json
from benchmarks.experiments.claims import Claim, claims_table
from benchmarks.experiments.malleable import predictions, shares
from benchmarks.experiments.malleable.claims import CLAIMS, claims_of
from benchmarks.experiments.malleable.figures import draw
from benchmarks.experiments.malleable.log_figures import claims_of as claims_of_log
from benchmarks.experiments.malleable.log_figures import draw as draw_log
from benchmarks.experiments.malleable.log_figures import fitted
from benchmarks.experiments.malleable.points import (
    SYSTEM_LOAD,
    Measured,
    document,
    given,
    measured,
    points_of,
    runs_of,
)
from benchmarks.experiments.malleable.tables import (
    streams,
    table_2,
    table_3,
    table_of_figure_14,
)
from benchmarks.experiments.section import rewrite
from benchmarks.experiments.stored import Stored, keep
from benchmarks.results import Results
from cosched.core.errors import CoschedError
from cosched.sim.malleable.malleable_runs import (
    MalleableOutcome,
    MalleableRun,
    carry_out,
)

TABLES = {"fig14": table_of_figure_14, "table2": table_2, "table3": table_3}
GIVEN = ("fig9", "fig10", "fig11", "fig12", "fig13", "table2")
#: The load at which Fig. 14 comes out as in the paper, and the number of jobs for Table 3.
CHOSEN_LOAD, CHOSEN_COUNT = 0.7, 300
#: The figures of streams of users' jobs, which have no load of their own.
USERS_FIGURES = ("fig15", "fig16", "table3")
#: Streams of a point, and jobs of a stream, in full.
STREAMS, JOBS = 100, 10_000
#: Streams for what the queue knows.
KNOWN_STREAMS = 10


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    bench = Bench("malleable", __doc__)
    add = bench.add_argument
    all_figures = f"of {', '.join(CLAIMS)} (default all)"
    add("figures", nargs="*", metavar="FIGURE", help=all_figures)
    add("--repeat", type=positive, help=f"streams a point (default {STREAMS})")
    add("--count", type=positive, help=f"jobs a stream (default {JOBS})")
    bench.add_parallel()
    bench.add_folder()
    add("--so-far", action="store_true", help="simulate nothing more")
    add("--given", action="store_true", help="FQ: to running jobs, too")
    load = f"of system-centric streams (default {SYSTEM_LOAD})"
    add("--load", type=float, default=SYSTEM_LOAD, help=load)
    bench.add_page()
    endings = "-given, -logs, -shares or -predictions"
    add("--part", help=f"of that page (default malleable, with {endings})")
    add("--log", type=Path, nargs="+", default=[], help="logs for Figures 5 to 8")
    add("--shares", action="store_true", help="the logs with some malleable jobs")
    add("--predictions", action="store_true", help="what the queue knows of run times")
    options = bench.parse(words)
    known = GIVEN if options.given else tuple(CLAIMS)
    options.figures = options.figures or list(known)
    for name in options.figures:
        if name not in known:
            bench.error(f"'{name}' is none of {', '.join(known)}")
    if options.shares and not options.log:
        bench.error("--shares is about logs; name some with --log")
    if options.predictions and options.log:
        bench.error("--predictions is about streams; it takes no --log")
    logs = "-shares" if options.shares else "-logs"
    kind = logs if options.log else "-given" if options.given else ""
    kind = "-predictions" if options.predictions else kind
    # A part with a name of its own repeats the claims in another setting.
    options.again = options.part is not None or options.given
    options.part = options.part or f"malleable{kind}"
    return options


def outcomes_of(
    options: argparse.Namespace, runs: Sequence[MalleableRun]
) -> list[MalleableOutcome]:
    """Simulates the runs that are not in the folder; returns the outcomes of all."""
    results = Results(options.out / "malleable.jsonl")

    def keep(one: MalleableOutcome) -> None:
        results.add(one.run, {"nodes": one.nodes, "figures": list(one.figures)})

    if options.so_far:
        runs = results.done(runs)
    simulate(carry_out, results.left(runs), options.jobs, keep)
    return [
        MalleableOutcome(run, found["nodes"], tuple(found["figures"]))
        for run in runs
        for found in [results.last(run)]
    ]


def measure(options: argparse.Namespace, figures: Sequence[str]) -> Measured:
    """Simulates what the figures need and writes it down."""
    repeat, count = options.repeat or STREAMS, options.count or JOBS
    runs = runs_of(figures, repeat, count, options.load, give=options.given)
    points = measured(outcomes_of(options, runs))
    whole = {"command": options.command, "repeat": repeat, "count": count}
    write_json(options.out / "malleable.json", {**whole, "points": document(points)})
    return points


def text_of(figures: Sequence[str], points: Measured, claims: Sequence[Claim]) -> str:
    """Claims and tables as Markdown."""
    blocks = [streams(points), *claims_table(claims), ""]
    blocks += [make(points) for name, make in TABLES.items() if name in figures]
    return "\n".join(blocks)


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    with in_one_line("malleable"):
        options.out.mkdir(parents=True, exist_ok=True)
        claims: list[Claim] = []
        if options.shares:
            runs = shares.runs_of(options.log)
            text = shares.table_of(outcomes_of(options, runs))
        elif options.predictions:
            repeat, count = options.repeat or KNOWN_STREAMS, options.count or JOBS
            runs = predictions.runs_of(repeat, count)
            text = predictions.table_of(outcomes_of(options, runs))
        else:
            text, claims = fit_logs(options) if options.log else carry_on(options)
        (options.out / f"{options.part}.md").write_text(text)
        if options.docs:
            rewrite(options.docs, options.part, text)
        if options.docs and claims:
            keep(options.docs, stored(options, claims))
        print(text, end="")


def stored(options: argparse.Namespace, claims: Sequence[Claim]) -> Stored:
    """Returns the claims with what the table of all papers shows of them."""
    return Stored(
        name=options.part,
        page=options.docs.name,
        how="simulated",
        command="scripts/dev bench malleable",
        claims=tuple(claims),
        setting="" if options.log else setting_of(options),
        again=options.again,
    )


def setting_of(options: argparse.Namespace) -> str:
    """Returns what differs between parts of the page, in words."""
    load = f"load {options.load:.2f}" if set(options.figures) - set(USERS_FIGURES) else ""
    short = f"{options.count} jobs a stream" if options.count else ""
    return ", ".join(filter(None, (load, short)))


def chosen_for(options: argparse.Namespace) -> dict[str, str]:
    """Returns the figures that the options were chosen for, with the reason."""
    found = {}
    if options.load == CHOSEN_LOAD:
        found["fig14"] = "this load was chosen because Fig. 14 comes out at it"
    if options.count == CHOSEN_COUNT:
        found["table3"] = "the number of jobs was chosen because Table 3 comes out with it"
    return found


def fit_logs(options: argparse.Namespace) -> tuple[str, list[Claim]]:
    """Draws Figures 5 to 8 for each log; returns their claims, as text and as they are."""
    claims = []
    for path in options.log:
        found = fitted(path)
        draw_log(found, options.out / f"malleable_log_{found.model.name}.png")
        claims += claims_of_log(found)
    return "\n".join(claims_table(claims)) + "\n", claims


def carry_on(options: argparse.Namespace) -> tuple[str, list[Claim]]:
    """Simulates what is left, and draws the figures; returns text, and the claims."""
    figures = options.figures
    points = measure(options, figures)
    if options.given:
        points = {
            shown: points[given(shown)]
            for figure in figures
            for shown in points_of(figure)
            if given(shown) in points
        }
    for figure in figures:
        missing = [point for point in points_of(figure) if point not in points]
        if missing:
            raise CoschedError(
                f"{len(missing)} points of {figure} are not there; "
                f"measure them with: scripts/dev bench malleable {figure}"
            )
        if figure.startswith("fig") and not options.given:
            draw(figure, points, options.out / f"malleable_{figure}.png")
    claims = claims_of(figures, points, chosen_for(options))
    return text_of(figures, points, claims), claims


if __name__ == "__main__":
    main()
