"""Runs a log on a machine with and without shared nodes, and computes the figures."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosched.core.units import NS_PER_S
from cosched.sim.logs.swf import read_swf
from cosched.sim.queue.metrics import summarise
from cosched.sim.queue.report_curves import course
from cosched.sim.share.driver import SharedMachine, Sharing
from cosched.sim.virtual_time import Progress, VirtualTime, no_progress


@dataclass(frozen=True, slots=True)
class Run:
    """A log and a way to share."""

    trace: Path  #: the file of the log
    sharing: Sharing  #: how jobs share nodes
    machine: int | None = None  #: the machine's nodes; None: as in the log's header
    first: int | None = None  #: only the first jobs of the log, this number; None: all
    strict: bool = False  #: the first bad line of the log is an error

    @property
    def name(self) -> str:
        """The queue's policy and the number of jobs a node."""
        return f"{self.sharing.queue}, {self.sharing.dom} a node"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    run: Run  #: the input
    jobs: int  #: the number of jobs that ran
    machine: int  #: the machine's nodes
    skipped: dict[str, int]  #: the log's bad lines by fault; empty: none
    figures: dict[str, float]  #: as sim.queue.metrics defines them
    course: dict[str, Any]  #: as sim.queue.report_curves defines it
    switches: int  #: how often a job came to the front of its nodes
    cpu_s: float  #: CPU time of the simulator

    def document(self) -> dict[str, Any]:
        """Returns the outcome as JSON."""
        sharing = self.run.sharing
        return {
            "trace": str(self.run.trace),
            "queue": sharing.queue,
            "dom": sharing.dom,
            "short_s": [short_ns / NS_PER_S for short_ns in sharing.short_ns],
            "switch_cost_s": sharing.costs.switch_ns / NS_PER_S,
            "interference": sharing.costs.beside,
            "jobs": self.jobs,
            "machine": self.machine,
            "skipped_lines": self.skipped,
            "figures": self.figures,
            "course": self.course,
            "switches": self.switches,
            "cpu_s": self.cpu_s,
        }


def carry_out(run: Run, progress: Progress = no_progress) -> Outcome:
    """Reads the log and simulates it."""
    began_s = time.process_time()
    log = read_swf(run.trace, machine=run.machine, strict=run.strict)
    workload = log.workload
    if run.first is not None:
        workload = workload.first(run.first)
    engine = VirtualTime()
    machine = SharedMachine(engine, workload, run.sharing)
    engine.run(lambda: progress(machine.ended / len(workload)))
    return Outcome(
        run=run,
        jobs=len(workload),
        machine=workload.machine,
        skipped=log.skipped_lines(),
        figures=summarise(workload, machine.start_ns, machine.end_ns),
        course=course(workload, machine.start_ns, machine.end_ns),
        switches=machine.switches,
        cpu_s=time.process_time() - began_s,
    )
