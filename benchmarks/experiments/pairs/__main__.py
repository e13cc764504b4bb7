"""How pairs of jobs start in two coupled clusters, beside the simulation of the same jobs.

Many pairs are submitted among jobs without mates, under each combination of hold and yield.
Each job writes when it began. The first columns are the pairs whose jobs began within a
second, and how far apart they began (median and 99th percentile). Then come the mean wait
and slowdown of all jobs, the mean time of jobs with mates from ready to begin, and the
node-hours held idle. "sim" is the simulation, in which starts take no time. "sim+" is the
simulation with the times that starts take on these clusters without other jobs. "least",
"mean" and "most" are of 15 such simulations, in which the times of jobs vary by up to 0.15
s. One run is partly chance, so "mean" is the figure to compare with.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.coupling_domains import (
    ENGINES,
    Domain,
    coupled_domains,
    coupling_counts,
)
from benchmarks.experiment import Bench, above_zero, positive
from benchmarks.experiments.pairs.costs import Costs, first_begin, measure_costs, submit
from benchmarks.experiments.pairs.simulated import simulated, spread
from benchmarks.experiments.pairs.workload import (
    NAMES,
    SCHEMES,
    SETTINGS,
    Plan,
    PlannedJob,
    plan_jobs,
)
from cosched.bench.run.interrupts import temporary_folder
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.tables import table

TOGETHER_S = 1.0
COLUMNS = {
    "wait s": "mean_wait_s",
    "slowdown": "mean_slowdown",
    "sync s": "mean_sync_s",
    "held node-h": "lost_node_h",
}
#: All jobs must have begun so long after the last submission.
BEGIN_WITHIN_S = 1800.0
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A planned job as it ran."""

    plan: PlannedJob  #: its plan
    submitted_s: float  #: by the wall clock
    began_s: float  #: by the wall clock, as its script wrote it

    @property
    def wait_s(self) -> float:
        return self.began_s - self.submitted_s


class Submitter(threading.Thread):
    """Submits the jobs of one domain when their time comes."""

    def __init__(self, domain: Domain, jobs: Sequence[PlannedJob], folder: Path) -> None:
        super().__init__(name=domain.name)
        self.domain, self.jobs, self.folder = domain, jobs, folder
        self.submitted: list[float] = []
        self.stopped = threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        begin = time.monotonic()
        try:
            for index, job in enumerate(self.jobs):
                if self.stopped.wait(max(0.0, begin + job.at_s - time.monotonic())):
                    return
                output = self.output(index)
                self.submitted.append(submit(self.domain, output, job))
        except (CoschedError, OSError) as error:
            self.error = error

    def output(self, index: int) -> Path:
        return self.folder / f"{self.domain.name}.{index}"

    def began(self) -> list[float | None]:
        """Returns when each submitted job began; None: not yet. Raises CoschedError for one
        that began twice."""
        return [
            first_begin(self.output(index), self.domain.scripts(job.nodes))
            for index, job in enumerate(self.jobs[: len(self.submitted)])
        ]


def run_live(
    plan: Plan, engines: Sequence[str], schemes: str, folder: Path
) -> dict[str, Any]:
    """Runs the jobs; returns their figures."""
    folder.mkdir()
    folder.chmod(0o1777)
    names = dict(zip(NAMES, engines, strict=True))
    words = [SCHEMES[letter] for letter in schemes]
    started = coupled_domains(folder, names, plan.nodes, words, SETTINGS, plan.block)
    with started as domains:
        planned = plan_jobs(plan)
        submitters = [
            Submitter(domain, jobs, folder)
            for domain, jobs in zip(domains, planned, strict=True)
        ]
        _submit_all(submitters)
        rows = _await_all(submitters)
        time.sleep(2 * plan.run_s)  # the last jobs' run time, so that all is counted
    counts = [coupling_counts(domain) for domain in domains]
    return {
        "domains": {
            name: _figures(jobs, count)
            for name, jobs, count in zip(NAMES, rows, counts, strict=True)
        },
        **_pairs(rows),
        "counts": dict(zip(NAMES, counts, strict=True)),
    }


def _submit_all(submitters: Sequence[Submitter]) -> None:
    """Waits until all jobs are submitted. If one cannot be, no more are."""
    try:
        for each in submitters:
            each.start()
        waiting = True
        while waiting:
            waiting = any(each.is_alive() for each in submitters)
            for each in submitters:
                each.join(0.1)
                if each.error is not None:
                    raise each.error
    finally:
        for each in submitters:
            each.stopped.set()
        for each in submitters:
            if each.is_alive():
                each.join()


def _await_all(submitters: Sequence[Submitter]) -> list[list[LiveJob]]:
    end = time.monotonic() + BEGIN_WITHIN_S
    while True:
        begins = [each.began() for each in submitters]
        if all(began is not None for all_began in begins for began in all_began):
            break
        if time.monotonic() > end:
            waiting = sum(began is None for each in begins for began in each)
            raise CoschedError(f"{waiting} jobs have not begun within {BEGIN_WITHIN_S:g} s")
        time.sleep(0.5)
    return [
        [
            LiveJob(job, submitted, began)
            for job, submitted, began in zip(each.jobs, each.submitted, found, strict=True)
            if began is not None
        ]
        for each, found in zip(submitters, begins, strict=True)
    ]


def _figures(jobs: Sequence[LiveJob], counts: dict[str, Any]) -> dict[str, float]:
    return {
        "mean_wait_s": mean(job.wait_s for job in jobs),
        "mean_slowdown": mean(1 + job.wait_s / job.plan.run_s for job in jobs),
        "mean_sync_s": counts["sync_ns"] / NS_PER_S / max(1, counts["started"]),
        "lost_node_h": counts["held_node_ns"] / NS_PER_S / HOUR_S,
    }


def _pairs(rows: Sequence[Sequence[LiveJob]]) -> dict[str, Any]:
    begins: dict[str, list[float]] = {}
    for jobs in rows:
        for job in jobs:
            if job.plan.group:
                begins.setdefault(job.plan.group, []).append(job.began_s)
    apart = sorted(1000 * (max(each) - min(each)) for each in begins.values())
    found = {
        "pairs": len(apart),
        "together": sum(each <= 1000 * TOGETHER_S for each in apart),
    }
    if not apart:
        return found
    p99 = apart[min(len(apart) - 1, round(0.99 * len(apart)))]
    return {**found, "apart_ms": {"median": median(apart), "p99": p99, "most": apart[-1]}}


def show(engines: str, run: dict[str, Any]) -> list[str]:
    """Returns a table of the live run, the simulation without and with costs, and its
    spread."""
    apart = run["live"].get("apart_ms", {"median": 0.0, "p99": 0.0})
    rows = []
    for kind in ("live", "sim", "sim+", "least", "mean", "most"):
        found = run[kind]
        both = [[found["domains"][n][key] for n in NAMES] for key in COLUMNS.values()]
        rows.append(
            (
                *(engines, run["schemes"], kind),
                f"{found['together']}/{found['pairs']}",
                *(f"{apart[k]:.0f}" if kind == "live" else "" for k in ("median", "p99")),
                *("/".join(f"{value:.3g}" for value in values) for values in both),
            )
        )
    head = ("", "", "", "together", "apart ms", "p99", *COLUMNS)
    return table(head, rows, "<<<" + ">" * 7, width=120)


def run_schemes(
    plan: Plan, engines: Sequence[str], schemes: Sequence[str], figures: dict[str, Any]
) -> Iterator[str]:
    """Runs the jobs under each combination, and yields its lines. figures: get all runs."""
    runs: list[dict[str, Any]] = []
    figures |= {"plan": asdict(plan), "engines": engines, "runs": runs}
    with temporary_folder("cosched-pairs-") as folder:
        folder.chmod(0o755)
        for each in schemes:
            runs.append(_run_scheme(plan, engines, each, folder))
            yield from show(",".join(engines), runs[-1])


def _run_scheme(
    plan: Plan, engines: Sequence[str], schemes: str, folder: Path
) -> dict[str, Any]:
    costs = measure_costs(
        dict(zip(NAMES, engines, strict=True)),
        plan.nodes,
        [SCHEMES[letter] for letter in schemes],
        SETTINGS,
        folder / f"{schemes}.costs",
        plan.block,
    )
    return {
        "schemes": schemes,
        "costs": [asdict(cost) for cost in costs],
        "live": run_live(plan, engines, schemes, folder / schemes),
        "sim": simulated(plan, engines, schemes, [Costs()] * len(NAMES)),
        "sim+": simulated(plan, engines, schemes, costs),
        **spread(plan, engines, schemes, costs),
    }


def main() -> int:
    """Runs all combinations; returns 1 if a pair did not begin together."""
    bench = Bench("pairs", __doc__, "--pairs 20 --unpaired 40 --schemes HH,YY")
    add = bench.add_argument
    add("--pairs", type=int, default=20, help="0: how the queues are by themselves")
    add("--unpaired", type=int, default=40)
    add("--nodes", type=positive, default=4, help="of each domain")
    add("--load", type=above_zero, default=0.6)
    add("--run", type=above_zero, default=2.0, help="mean run time, in s")
    add("--seed", type=int, default=1)
    add(
        "--block",
        type=int,
        default=0,
        help="nodes of the least aligned block of a job (0: any nodes)",
    )
    add("--schemes", default="HH,HY,YH,YY")
    add("--engines", default="native,native", help="of both domains: native or slurm")
    figures: dict[str, Any] = {}

    def run(options: argparse.Namespace) -> tuple[Iterator[str], object]:
        plan, engines, schemes = _checked(bench, options)
        return run_schemes(plan, engines, schemes, figures), figures

    bench.run(run)
    lives = [each["live"] for each in figures["runs"]]
    return int(any(live["together"] < live["pairs"] for live in lives))


def _checked(
    bench: Bench, options: argparse.Namespace
) -> tuple[Plan, Sequence[str], Sequence[str]]:
    """Returns the jobs, the engines and the combinations of schemes."""
    engines = options.engines.split(",")
    schemes = options.schemes.split(",")
    if len(engines) != len(NAMES) or not set(engines) <= set(ENGINES):
        bench.error(f"--engines {options.engines}: want two of {', '.join(ENGINES)}")
    if any(len(each) != len(NAMES) or not set(each) <= set(SCHEMES) for each in schemes):
        bench.error(f"--schemes {options.schemes}: want such as HH,HY,YH,YY")
    if options.pairs < 0 or options.unpaired < 0 or options.unpaired % 2:
        bench.error("--pairs: want 0 or more; --unpaired: want 0 or an even number")
    if options.pairs + options.unpaired == 0:
        bench.error("--pairs, --unpaired: want some jobs")
    if options.block < 0 or (options.block and options.nodes % options.block):
        bench.error("--block: want 0, or a part of --nodes")
    if options.block and "slurm" in engines:
        bench.error("--block: Slurm gives jobs any nodes; want --engines native,native")
    values = ("pairs", "unpaired", "nodes", "load", "run", "seed", "block")
    return Plan(*(getattr(options, value) for value in values)), engines, schemes


if __name__ == "__main__":
    sys.exit(main())
