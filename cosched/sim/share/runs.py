"""Runs a log on a machine with and without shared nodes, and computes the figures."""

from __future__ import annotations

import time
from array import array
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cosched.core.units import NS_PER_S
from cosched.sim.engine import Progress, no_progress
from cosched.sim.logs.swf import read_swf
from cosched.sim.logs.workload import Workload
from cosched.sim.queue.metrics import BOUND_NS, column
from cosched.sim.share.machine import SharedMachine, Sharing


@dataclass(frozen=True, slots=True)
class Run:
    """A log and a way to share. first: only so many jobs of the log; None: all."""

    trace: Path
    sharing: Sharing
    machine: int | None = None
    first: int | None = None
    skip_bad: bool = False

    @property
    def name(self) -> str:
        """The queue's policy and the number of jobs a node."""
        return f"{self.sharing.queue}, {self.sharing.rows.dom} a node"


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a schedule. Times in seconds; slowdowns are bounded by 10 s.

    load: node-seconds of the jobs / of the machine while jobs were submitted. used: the
    part of the machine's time until the last end that jobs took.
    """

    mean_wait_s: float
    mean_response_s: float
    mean_slowdown: float
    p95_slowdown: float
    max_response_s: float
    load: float
    used: float
    switches: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    run: Run
    jobs: int
    machine: int
    skipped: dict[str, int]
    figures: Figures
    cpu_s: float

    def document(self) -> dict[str, Any]:
        """Returns the outcome as JSON."""
        sharing = self.run.sharing
        return {
            "trace": str(self.run.trace),
            "queue": sharing.queue,
            "dom": sharing.rows.dom,
            "short_s": [short_ns / NS_PER_S for short_ns in sharing.rows.short_ns],
            "switch_cost_s": sharing.costs.switch_ns / NS_PER_S,
            "interference": sharing.costs.beside,
            "jobs": self.jobs,
            "machine": self.machine,
            "skipped_lines": self.skipped,
            "figures": asdict(self.figures),
            "cpu_s": self.cpu_s,
        }


def carry_out(run: Run, progress: Progress = no_progress) -> Outcome:
    """Reads the log and simulates it."""
    began_s = time.process_time()
    log = read_swf(run.trace, machine=run.machine, skip_bad=run.skip_bad)
    workload = log.workload
    if run.first is not None and run.first < len(workload):
        workload = workload.moved(0, end_ns=workload.submit_ns[run.first])
    machine = SharedMachine(workload, run.sharing)
    machine.run(progress)
    return Outcome(
        run=run,
        jobs=len(workload),
        machine=workload.machine,
        skipped=log.skipped_lines(),
        figures=summarise(workload, machine.start_ns, machine.end_ns, machine.switches),
        cpu_s=time.process_time() - began_s,
    )


def summarise(
    workload: Workload, start_ns: array[int], end_ns: array[int], switches: int = 0
) -> Figures:
    """Returns the figures of a schedule in which every job ended."""
    submit, run = column(workload.submit_ns), column(workload.run_ns)
    start, end = column(start_ns), column(end_ns)
    response = end - submit
    slowdown = np.maximum(response / np.maximum(run, BOUND_NS), 1.0)
    node_s = float((column(workload.size) * (run / NS_PER_S)).sum())
    makespan_s = float(end.max() - submit.min()) / NS_PER_S
    span_s = float(submit.max() - submit.min()) / NS_PER_S
    return Figures(
        mean_wait_s=float((start - submit).mean()) / NS_PER_S,
        mean_response_s=float(response.mean()) / NS_PER_S,
        mean_slowdown=float(slowdown.mean()),
        p95_slowdown=float(np.percentile(slowdown, 95)),
        max_response_s=float(response.max()) / NS_PER_S,
        load=node_s / (workload.machine * span_s) if span_s else 0.0,
        used=node_s / (workload.machine * makespan_s) if makespan_s else 0.0,
        switches=switches,
    )
