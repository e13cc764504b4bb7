"""Measures the gain of a domain whose nodes take several jobs.

queue    one job a node at a time
kernel   several jobs a node, without the shim: the kernel shares the CPUs
cosched  several jobs a node, coscheduled by the nodes' daemons

All jobs of the workload file go to the queue at their times, on all nodes of a lab, in
three ways. The ways take turns, and begin with another one in each round. Times are seconds
from a job's submission to its end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.domain_lab import domain, new_lab
from benchmarks.experiment import Bench, positive
from benchmarks.mpi import build, find
from benchmarks.progress_lines import counted_steps
from cosched.bench.workload.file import JobInstance, Workload, load_workload
from cosched.config.queue import QueueSettings
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.jobs.client import Client
from cosched.jobs.job import Job
from cosched.lab.lab import Lab
from cosched.lab.plan import plan_nodes
from cosched.linux.cpu_surroundings import usable_siblings
from cosched.tables import table

NODES = 2
WORKLOAD = Path(__file__).parents[1] / "workloads/lab/wavefront4.toml"


@dataclass(frozen=True, slots=True)
class Way:
    """Describes how jobs share the nodes."""

    several: bool  #: whether a node takes several jobs
    shim: bool  #: whether jobs run with the shim


WAYS = {
    "queue": Way(several=False, shim=True),
    "kernel": Way(several=True, shim=False),
    "cosched": Way(several=True, shim=True),
}


@dataclass(frozen=True, slots=True)
class Run:
    """Holds one run of a workload."""

    way: str  #: how the jobs shared the nodes
    #: Responses of its jobs in order of submission, in seconds.
    responses_s: tuple[float, ...]
    makespan_s: float  #: from the first submission to the last end, in seconds

    @property
    def mean_s(self) -> float:
        """The mean response."""
        return statistics.fmean(self.responses_s)


class Runner:
    """Runs a workload on a lab by each way. several: the jobs that a node takes."""

    def __init__(self, lab: Lab, workload: Workload, several: int, mpi: str) -> None:
        self._lab = lab
        self._workload = workload
        self._several = several
        self._mpi = mpi
        found = find(mpi)
        self._programs = {
            spec.source: build(spec.source, found)
            for spec in workload.jobs
            if spec.source is not None
        }

    def run(self, name: str) -> Run:
        """Runs the workload once."""
        way = WAYS[name]
        queue = QueueSettings("fcfs", self._several if way.several else 1)
        with (
            domain(self._lab, queue=queue),
            Client.connect(self._lab.run_dir, self._lab.nodes[0].name) as client,
        ):
            jobs = [
                (each.start_s, client.prepare(self._job(each, shim=way.shim)))
                for each in self._workload.instances()
            ]
            began_s = time.monotonic()
            numbers = []
            for start_s, prepared in jobs:
                time.sleep(max(0.0, began_s + start_s - time.monotonic()))
                numbers.append(client.submit(prepared))
            ended = [client.wait(number) for number in numbers]
        for job in ended:
            if job["status"] != 0:
                raise CoschedError(f"{name}: job {job['name']} failed: {job['reason']}")
        ends_ns = [job["ended_ns"] or 0 for job in ended]
        submitted_ns = [job["submitted_ns"] for job in ended]
        responses = zip(ends_ns, submitted_ns, strict=True)
        return Run(
            name,
            tuple((end - begin) / NS_PER_S for end, begin in responses),
            (max(ends_ns) - min(submitted_ns)) / NS_PER_S,
        )

    def _job(self, each: JobInstance, *, shim: bool) -> Job:
        spec = each.spec
        program = self._programs.get(spec.source) if spec.source else None
        return Job(
            [str(program), *spec.args] if program else list(spec.command),
            nodes=len(self._lab.nodes),
            ppn=-(-spec.ranks // len(self._lab.nodes)),
            time_s=3600,
            name=each.name.replace(".", "-"),
            output=os.devnull,
            mpi=self._mpi,
            shim=shim,
            environ={**os.environ, **spec.env},
            cwd=str(spec.cwd or Path.cwd()),
        )


def measure(run_dir: Path, options: argparse.Namespace) -> list[Run]:
    """Returns all runs."""
    workload = load_workload(options.workload)
    names, found = list(WAYS), []
    with (
        new_lab(run_dir, plan_nodes(NODES, 1, usable_siblings())) as lab,
        counted_steps("runs", options.repeats * len(names)) as advance,
    ):
        runner = Runner(lab, workload, options.several, options.mpi)
        for number in range(options.repeats):
            for at in range(len(names)):
                found.append(runner.run(names[(number + at) % len(names)]))
                advance()
    return found


def summary(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Returns for each way the medians, and its ratios to the others' in the same round."""
    by_way = {name: [run for run in runs if run.way == name] for name in WAYS}
    found = {}
    for name, own in by_way.items():
        row = {
            "mean_s": statistics.median(run.mean_s for run in own),
            "least_s": min(run.mean_s for run in own),
            "most_s": max(run.mean_s for run in own),
            "makespan_s": statistics.median(run.makespan_s for run in own),
        }
        for other in ("queue", "kernel"):
            pairs = zip(own, by_way[other], strict=True)
            row[f"to_{other}"] = statistics.median(a.mean_s / b.mean_s for a, b in pairs)
        found[name] = row
    return found


def text(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Returns the lines of the table."""
    rows = [
        (
            name,
            f"{row['mean_s']:.2f} s ({row['least_s']:.2f} - {row['most_s']:.2f})",
            f"{row['makespan_s']:.2f} s",
            *(f"{row[f'to_{other}']:.2f}" for other in ("queue", "kernel")),
        )
        for name, row in found.items()
    ]
    head = ("way", "mean response (least - most)", "makespan", "to queue", "to kernel")
    return table(head, rows, "<>>>>")


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns all runs with their summary, and a table of it."""
    with tempfile.TemporaryDirectory(prefix="cosched-t-") as folder:
        runs = measure(Path(folder) / "run", options)
    found = summary(runs)
    return text(found), {"runs": runs, "summary": found}


def main() -> None:
    """Runs the benchmark."""
    bench = Bench("together", __doc__, "--several 2 --repeats 5")
    add = bench.add_argument
    add("--workload", type=Path, default=WORKLOAD, help="(wavefront4)")
    add("--several", type=positive, default=2, help="jobs a node takes (2)")
    add("--repeats", type=positive, default=3, help="(3)")
    add("--mpi", default="mpich", help="mpich, openmpi or a path (mpich)")
    bench.run(run)


if __name__ == "__main__":
    main()
