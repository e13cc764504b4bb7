"""Measures Figures 2 to 6 of Yoo and Jette (IPDPS 2001), and where coscheduling pays.

fig2   mean response of three workloads, from hardly any messages to very many
fig3   mean response at a degree of multiprogramming (DOM) of 2 to 5
fig4   mean wait of many jobs, two of them long, by slice and DOM, and under batch
fig5   mean response by GMET
fig6   mean response by the slice
auto   mean response with fixed slices, and with slice=auto
fleet  cosched against the kernel over grain, DOM and placement of ranks
all    one after the other

On a lab of two nodes of one core it takes minutes. With --scale paper it runs on --hosts
with the sizes, slices and GMET of the paper. The folder --out gets FIGURE.json with every
run, FIGURE.txt, FIGURE.png, FIGURE.svg and FIGURE.runs.jsonl. The last one keeps each
finished run: the same command resumes there, and a greater --repeats adds runs. All of them
report a run that fails or takes too long; the other runs go on.

examples:
  scripts/dev bench yoo fig2 --out results
  scripts/dev bench yoo fig5 --out results --repeats 3
  scripts/dev bench yoo fig2 --scale paper --hosts n1,n2 --out results
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.experiment import (
    Bench,
    above_zero,
    in_one_line,
    line_of,
    positive,
    write_figure,
)
from benchmarks.experiments.yoo.figures import draw
from benchmarks.experiments.yoo.plans import PLANS, SCALES, Plan, Way, make_plan
from benchmarks.experiments.yoo.yoo_table import text_table
from benchmarks.npb.kernels import load as load_kernels
from cosched.bench.measure.equal_speed import rescaled, speeds, usual_probe_us
from cosched.bench.results.results import Run
from cosched.bench.results.run_store import open_run_store
from cosched.bench.results.summary import ArmSummary, summarise
from cosched.bench.run.arms import parse_arms
from cosched.bench.run.budget import Budget
from cosched.bench.run.progress import open_progress
from cosched.bench.run.repeats import Point, Runs, run_all, to_run
from cosched.bench.run.testbed import Testbed, TestbedOptions, open_testbed
from cosched.bench.workload.file import JobSpec
from cosched.core.errors import CoschedError
from cosched.documents import read_json
from cosched.rundir.paths import default_run_dir

FORMAT = "cosched-yoo-1"
ALL = "all"


def carry_out(plan: Plan, options: argparse.Namespace) -> dict[str, Any]:
    """Makes the missing runs and returns the figure as a document."""
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    testbed_options = TestbedOptions(
        run_dir=options.run_dir,
        hosts=tuple(options.hosts.split(",")) if options.hosts else (),
        mpi=options.mpi,
        set_with=tuple(shlex.split(options.set_with or "")),
        limit_s=options.run_limit or SCALES[options.scale].limit_s,
    )
    _build_kernels(spec for workload in plan.workloads for spec in workload.jobs)
    with open_testbed(plan.workloads, testbed_options, os.environ) as testbed:
        found = _measure(plan, options, testbed)
        context = testbed.context()
    return {
        "format": FORMAT,
        "figure": plan.figure,
        "title": plan.title,
        "xlabel": plan.xlabel,
        "value": plan.value,
        "command": options.command,
        "scale": options.scale,
        "quick": options.quick,
        "started": started,
        "repeats": options.repeats or plan.repeats,
        "seen": plan.seen,
        **context,
        "speeds": speeds(run for runs in found.values() for run in runs),
        "points": point_documents(plan.ways, found),
    }


def _measure(plan: Plan, options: argparse.Namespace, testbed: Testbed) -> Runs:
    points = [
        Point(testbed.sessions[way.workload.title], way.setup, f"{way.series} {way.x} #")
        for way in plan.ways
    ]
    repeats = options.repeats or plan.repeats
    kept = options.out / f"{stem_of(plan.figure, options)}.runs.jsonl"
    made_with = {**testbed.made_with(), "seen": plan.seen or None}
    with open_run_store(kept, made_with) as store:
        left = to_run(points, repeats, store)
        with open_progress(sys.stderr, left) as progress:
            done = len(points) * repeats - len(left)
            if done:
                progress.show(f"runs done already: {done}")
            if left:
                arms = {way.setup.arm for way in plan.ways}
                points[0].session.warm_up(arms, progress)
                if plan.seen:
                    for session in testbed.sessions.values():
                        session.see(plan.seen, progress)
            no_bound = Budget(math.inf, time.monotonic)
            return run_all(points, repeats, store, progress, no_bound)


def _need_matplotlib() -> None:
    """Checks before the runs that the pictures can be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CoschedError(f"no matplotlib: {sys.executable} -m pip install matplotlib")


def _build_kernels(specs: Any) -> None:
    """Compiles the NAS benchmarks, so that no run includes that."""
    module = "benchmarks.npb"
    jobs: list[JobSpec] = [spec for spec in specs if module in spec.command]
    for name in sorted({job.command[job.command.index(module) + 1] for job in jobs}):
        load_kernels(name)


def point_documents(ways: Sequence[Way], found: Runs) -> list[dict[str, Any]]:
    """Returns the points of the figure with their setups, results and runs.

    ``level`` holds the results at equal speed of the machine, if it differed. ``found``:
    the result of ``run_all``.
    """
    usual_us = usual_probe_us(run for runs in found.values() for run in runs)
    return [
        _point(way, found[way.workload.title, way.setup.name], usual_us) for way in ways
    ]


def _point(way: Way, runs: Sequence[Run], usual_us: float | None) -> dict[str, Any]:
    summary = summarise(way.setup.arm, runs)
    level = None
    if usual_us is not None:
        level = summarise(way.setup.arm, [rescaled(run, usual_us) for run in runs])
    return {
        "workload": way.workload.title,
        "series": way.series,
        "x": way.x,
        "arm": way.setup.arm.value,
        "settings": dict(way.setup.settings),
        "dom": way.setup.dom,
        **_figures(summary),
        "level": _figures(level) if level else None,
        "counted": len(summary.counted),
        "disturbed": summary.all_disturbed,
        "outside_load": _outside(summary),
        "failure": next((run.failure.line for run in runs if run.failure), None),
        "runs": [msgspec.to_builtins(run) for run in runs],
    }


def _figures(summary: ArmSummary) -> dict[str, dict[str, float] | None]:
    names = ("mean_response_s", "mean_wait_s", "makespan_s")
    return {name: msgspec.to_builtins(getattr(summary, name)) for name in names}


def _outside(summary: ArmSummary) -> float | None:
    loads = [run.load.share for run in summary.counted if run.load is not None]
    return max(loads, default=None)


def stem_of(figure: str, options: argparse.Namespace) -> str:
    """Returns the name of a figure's files; trials have other names."""
    return f"{figure}-quick" if options.quick else figure


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    bench = Bench("yoo", __doc__)
    add = bench.add_argument
    add("figure", choices=(*PLANS, ALL))
    add("--out", type=Path, default=Path("results"), help="(results)")
    add("--repeats", type=positive, help="runs of each point; medians count")
    add("--quick", action="store_true", help="a few tiny jobs: a trial")
    add("--scale", choices=SCALES, default="lab", help="sizes (lab)")
    add("--arms", help="of fig2 and fig3, as for cosched bench")
    add("--hosts", metavar="A,B", help="run on these nodes, not a lab")
    changes = "as for cosched bench, to change settings"
    add("--set-with", metavar="COMMAND", help=changes)
    add("--mpi", help="as for cosched-run")
    add("--run-limit", type=above_zero, metavar="S", help="longest run, s")
    add("--run-dir", type=Path, default=default_run_dir(os.environ, os.geteuid()))
    add("--redraw", action="store_true", help="no runs: table and pictures anew")
    options = bench.parse(words)
    if options.arms and options.figure not in ("fig2", "fig3"):
        bench.error(f"--arms: {options.figure} has arms of its own")
    return options


def write(document: dict[str, Any], stem: Path) -> str:
    """Writes JSON, table and pictures; returns the table."""
    text = text_table(document)
    write_figure(stem, document, text, draw, ("png", "svg"))
    return text


def make(figure: str, options: argparse.Namespace) -> bool:
    """Makes one figure; returns whether every point has a value."""
    stem = options.out / stem_of(figure, options)
    if options.redraw:
        document = read_json(stem.with_suffix(".json"))
    else:
        _need_matplotlib()
        arms = parse_arms(options.arms) if options.arms else None
        plan = make_plan(figure, SCALES[options.scale], arms, options.quick)
        document = carry_out(plan, options)
    write(document, stem)
    return not any(point["failure"] for point in document["points"])


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 if something failed; further figures are made in any case."""
    options = parse(words)
    whole = True
    with in_one_line("yoo", "interrupted; the same command goes on from here"):
        options.out.mkdir(parents=True, exist_ok=True)
        for figure in PLANS if options.figure == ALL else (options.figure,):
            try:
                whole = make(figure, options) and whole
            except CoschedError as error:
                print(line_of(f"yoo: {figure}", error), file=sys.stderr)
                whole = False
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
