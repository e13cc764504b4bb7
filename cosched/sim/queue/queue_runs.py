"""Runs one log through one queue policy; computes its figures and writes its schedule."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import Intervals, format_nodes
from cosched.core.cluster.queue.places.blocks import allocation_of
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.units import NS_PER_S
from cosched.sim.logs.opening import log_name
from cosched.sim.logs.swf import read_swf, seconds
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.queue.columns import Columns, save_columns
from cosched.sim.queue.driver import Domain
from cosched.sim.queue.metrics import column, summarise
from cosched.sim.queue.report_curves import course
from cosched.sim.virtual_time import Progress, VirtualTime, no_progress


@dataclass(frozen=True, slots=True)
class Run:
    """A log and a policy."""

    trace: Path  #: the file of the log
    policy: str  #: a name of POLICIES
    estimates: Estimates  #: the durations that the queue expects
    machine: int | None = None  #: the machine's nodes; None: as in the log's header
    strict: bool = False  #: the first bad line of the log is an error
    unit: int | None = None  #: nodes of the least block; None: jobs get no aligned blocks
    keep_nodes: bool = False  #: the columns also have the nodes of each job
    save_in: Path | None = None  #: the folder for columns; None: write none
    command: str = ""  #: the command line that the columns name

    @property
    def name(self) -> str:
        """The names of the log, the policy and the estimates."""
        log = log_name(self.trace)
        return f"{log}.{self.policy}.{self.estimates.value}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    run: Run  #: the input
    machine: int  #: the machine's nodes
    skipped: dict[str, int]  #: the log's bad lines by fault; empty: none
    figures: dict[str, float]  #: from metrics.summarise
    course: dict[str, Any]  #: from course.course
    counts: dict[str, int]  #: how often the planner took each branch
    files: tuple[str, ...]  #: the columns written; empty: none
    cpu_s: float  #: CPU time of the simulator

    def document(self) -> dict[str, Any]:
        """Returns the outcome as JSON."""
        return {
            "trace": str(self.run.trace),
            "policy": self.run.policy,
            "estimates": self.run.estimates.value,
            "machine": self.machine,
            "blocks": self.run.unit,
            "skipped_lines": self.skipped,
            "figures": self.figures,
            "course": self.course,
            "counts": self.counts,
            "files": list(self.files),
            "cpu_s": self.cpu_s,
        }


def simulate(
    workload: Workload,
    policy: str,
    estimates: Estimates,
    *,
    unit: int | None = None,
    keep_nodes: bool = False,
    progress: Progress = no_progress,
) -> tuple[Schedule, QueueMachine]:
    """Runs a workload through a policy; returns the schedule and the queue.
    Raises CoschedError if the machine is not made of blocks of ``unit`` nodes."""
    engine = VirtualTime()
    nodes = ((0, workload.machine - 1),)
    queue = QueueMachine(Ledger(nodes, allocation=allocation_of(unit)), POLICIES[policy])
    domain = Domain(engine, workload, queue, estimates, keep_nodes)
    engine.run(lambda: progress(domain.ended / len(workload)))
    return Schedule(workload, domain.start_ns, domain.nodes), queue


def carry_out(run: Run, progress: Progress = no_progress) -> Outcome:
    """Reads the log, simulates, writes the columns."""
    began_s = time.process_time()
    log = read_swf(run.trace, machine=run.machine, strict=run.strict)
    schedule, queue = simulate(
        log.workload,
        run.policy,
        run.estimates,
        unit=run.unit,
        keep_nodes=run.keep_nodes,
        progress=progress,
    )
    figures = summarise(log.workload, schedule.start_ns)
    files: tuple[str, ...] = ()
    if run.save_in is not None:
        paths = save(schedule, run.save_in / run.name, run.command, figures)
        files = tuple(str(path) for path in paths)
    return Outcome(
        run=run,
        machine=log.workload.machine,
        skipped=log.skipped_lines(),
        figures=figures,
        course=course(log.workload, schedule.start_ns),
        counts=asdict(queue.planner.counts),
        files=files,
        cpu_s=time.process_time() - began_s,
    )


@dataclass(frozen=True, slots=True)
class Schedule:
    """The start of each job of a workload."""

    workload: Workload  #: the jobs, in order of submission
    start_ns: array[int]  #: when each job started, virtual time
    nodes: Sequence[Intervals]  #: the nodes of each job; empty unless kept


def save(
    schedule: Schedule, stem: Path, command: str, figures: Mapping[str, object]
) -> tuple[Path, Path]:
    """Writes ``stem.npz`` and ``stem.csv``; returns their paths.

    There is a row for each job, in order of submission:

    job          number in the log
    user         as in the log, -1 if unknown
    size         nodes
    submit_s     as in the log
    start_s      submission plus wait
    wait_s       end_s     run_s
    walltime_s   what the user asked for
    nodes        the nodes of the job (0-3,8), if they were kept
    """
    log = schedule.workload
    submits, starts, runs = map(column, (log.submit_ns, schedule.start_ns, log.run_ns))
    times_ns = {
        "submit_s": submits,
        "start_s": starts,
        "end_s": starts + runs,
        "wait_s": starts - submits,
        "run_s": runs,
        "walltime_s": column(log.walltime_ns),
    }
    columns: Columns = {
        "job": log.number,
        "user": log.user,
        "size": log.size,
        **{name: values / NS_PER_S for name, values in times_ns.items()},
    }
    if schedule.nodes:
        columns = {**columns, "nodes": [format_nodes(nodes) for nodes in schedule.nodes]}
    exact = {name: list(map(seconds, values.tolist())) for name, values in times_ns.items()}
    return save_columns(stem, columns, command, figures, exact)
