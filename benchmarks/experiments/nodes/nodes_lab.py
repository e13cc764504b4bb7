"""Compares workloads on the lab with their simulation, to check the simulator.

For each workload it runs ``cosched sim calibrate`` (each program alone), ``cosched bench``
under the arms, and the same jobs on as many simulated nodes, which get nothing but the
calibration. The table has the mean response of each arm on the lab and simulated, and the
difference, all at the machine's speed during the calibration.

The folder keeps every finished run, so the same command resumes after an interruption. Each
MPI has a subfolder; the table has all of them. ``--docs`` writes the table into that page.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiment import Bench, in_one_line, positive, write_json
from benchmarks.experiments.section import rewrite
from benchmarks.mpi import find
from cosched.bench.run.arms import Arm, Setup, parse_arms
from cosched.bench.run.bench import BenchOptions, run_bench
from cosched.bench.run.testbed import TestbedOptions
from cosched.bench.simulate.calibrate import calibrate
from cosched.bench.simulate.models import load_calibration, write_calibration
from cosched.bench.simulate.virtual import VirtualSession
from cosched.bench.workload.file import load_workload
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S, parse_duration
from cosched.rundir.directories import own_run_dir
from cosched.sim.nodes.node_runs import carry_out
from cosched.tables import markdown

SECTION = "nodes_lab"
LAB = Path(__file__).parents[2] / "workloads/lab"
WORKLOADS = tuple(LAB / f"workload{number}.toml" for number in (1, 2, 3))
ARMS = "batch,kernel,gang,cosched"
#: The allowed error of a simulation.
WANTED = 0.15


def measure(workload: Path, folder: Path, options: argparse.Namespace) -> None:
    """Runs the parts of one workload that the folder does not hold."""
    folder.mkdir(parents=True, exist_ok=True)
    _keep_to(workload, folder)
    testbed = TestbedOptions(
        run_dir=own_run_dir(os.environ, os.geteuid()),
        nodes=options.nodes,
        mpi=options.mpi,
        limit_s=options.limit_s,
    )
    calibration = folder / f"{workload.stem}.calibration.toml"
    if not calibration.exists():
        found = calibrate(workload, testbed, 1, os.environ, sys.stderr)
        calibration.write_text(write_calibration(found))
    bench = folder / f"{workload.stem}.bench.json"
    if bench.exists() and _is_complete(json.loads(bench.read_text()), options):
        return
    outcome = run_bench(
        BenchOptions(
            workload=workload,
            arms=parse_arms(options.arms),
            repeats=options.repeat,
            testbed=testbed,
            resume=folder / f"{workload.stem}.runs.jsonl",
            command_line=tuple(sys.argv),
        ),
        os.environ,
        sys.stderr,
    )
    if outcome.failed:
        raise CoschedError(f"{workload.name}: a run failed:\n{outcome.text}")
    write_json(bench, outcome.document)


def _keep_to(workload: Path, folder: Path) -> None:
    """Refuses a folder that holds another workload."""
    kept = folder / f"{workload.stem}.workload.toml"
    if not kept.exists():
        kept.write_text(workload.read_text())
    if kept.read_text() != workload.read_text():
        raise CoschedError(
            f"{workload.name} has changed since {folder} was made; give another --out"
        )


def _is_complete(document: Mapping[str, Any], options: argparse.Namespace) -> bool:
    """Whether a bench has all requested runs."""
    known = {name: len(figures["repeats"]) for name, figures in document["arms"].items()}
    asked = [arm.value for arm in parse_arms(options.arms)]
    enough = all(known.get(name, 0) >= options.repeat for name in asked)
    return enough and len(document["hosts"]) == options.nodes


def compare(workload: Path, folder: Path, seeds: int) -> list[dict[str, Any]]:
    """For each arm the mean response on the lab and simulated (mean over the seeds)."""
    bench = json.loads((folder / f"{workload.stem}.bench.json").read_text())
    calibration = load_calibration(folder / f"{workload.stem}.calibration.toml")
    session = VirtualSession(load_workload(workload), calibration, len(bench["hosts"]))
    rows: list[dict[str, Any]] = []
    for name, figures in bench["arms"].items():
        setup = Setup(Arm(name), _settings(bench["settings"]))
        # Simulated nodes have seen no job end, like the nodes in each run of the bench.
        outcomes = [carry_out(session.run_of(setup, n)) for n in range(1, seeds + 1)]
        response_s = statistics.fmean(outcome.mean_response_s for outcome in outcomes)
        makespan_s = statistics.fmean(outcome.makespan_s for outcome in outcomes)
        rows.append(
            {
                "mpi": calibration.mpi,
                "workload": bench["workload"]["title"],
                "arm": name,
                "lab_s": _lab_s(figures, "mean_response_s", calibration.probe_us),
                "simulated_s": response_s,
                "lab_makespan_s": _lab_s(figures, "makespan_s", calibration.probe_us),
                "simulated_makespan_s": makespan_s,
            }
        )
    return rows


def _lab_s(figures: Mapping[str, Any], value: str, probe_us: float | None) -> float:
    """Returns an arm's median on the lab, at the speed of the calibration if known."""
    runs = [run for run in figures["repeats"] if run["counted"]]
    if probe_us is None or any(run.get("probe_us") is None for run in runs):
        return float(figures[value])
    return float(statistics.median(run[value] * probe_us / run["probe_us"] for run in runs))


def _settings(live: Mapping[str, Any]) -> dict[str, str]:
    return {**live, "align": "on" if live["align"] else "off"}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns a table in Markdown; a difference above the limit is bold."""
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    cells = {(r["mpi"], r["workload"], r["arm"]): _cell(r) for r in rows}
    places = list(dict.fromkeys((row["mpi"], row["workload"]) for row in rows))
    lines = markdown(
        ("", "", *arms),
        [
            (workload, mpi, *(cells.get((mpi, workload, arm), "") for arm in arms))
            for mpi, workload in places
        ],
    )
    return "\n".join(lines) + "\n"


def _cell(row: Mapping[str, Any]) -> str:
    apart = row["simulated_s"] / row["lab_s"] - 1.0
    text = f"{round(apart, 2) + 0.0:+.0%}"  # no "-0%"
    if abs(apart) > WANTED:
        text = f"**{text}**"
    return f"{row['lab_s']:.1f}, {row['simulated_s']:.1f}: {text}"


def section(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the text for the page."""
    apart = [abs(row["simulated_s"] / row["lab_s"] - 1.0) for row in rows]
    within = sum(one <= WANTED for one in apart)
    return (
        "Mean response in seconds on the lab, simulated, and how far the simulation is "
        f"off:\n\n{table(rows)}\n{within} of {len(rows)} are within {WANTED:.0%}.\n"
    )


def all_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Returns the results of every measured MPI."""
    for path in sorted(folder.glob("*/rows.json")):
        yield from json.loads(path.read_text())


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    bench = Bench("nodes_lab", __doc__)
    bench.add_folder()
    bench.add_page()
    bench.add_repeat(1, "runs of each arm")
    add = bench.add_argument
    add("--workloads", type=Path, nargs="+", default=list(WORKLOADS), metavar="FILE")
    add("--arms", default=ARMS, help=f"default {ARMS}")
    add("--nodes", type=positive, default=2, help="of the lab (default 2)")
    add("--seeds", type=positive, default=3, help="simulations of each arm (default 3)")
    add("--mpi", help="as for cosched-run")
    add("--run-limit", metavar="TIME", help="a run that lasts longer has failed")
    options = bench.parse(words)
    limit = options.run_limit
    limit_s = parse_duration(limit, "--run-limit") / NS_PER_S if limit else None
    options.limit_s = float("inf") if limit_s is None else limit_s
    return options


def family(asked: str | None) -> str:
    """Returns the folder name of the MPI at hand."""
    return find(asked).family.value


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    with in_one_line("nodes_lab"):
        folder = options.out / family(options.mpi)
        for workload in options.workloads:
            measure(workload, folder, options)
        rows = [
            row
            for workload in options.workloads
            for row in compare(workload, folder, options.seeds)
        ]
        write_json(folder / "rows.json", rows)
        text = section(list(all_rows(options.out)))
        if options.docs is not None:
            rewrite(options.docs, SECTION, text)
    print(text, end="")


if __name__ == "__main__":
    main()
