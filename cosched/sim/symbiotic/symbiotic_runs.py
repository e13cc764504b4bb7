"""Runs a stream of jobs under several placements and computes their figures.

makespan: from the first submission to the last end. mean_wait: from submission to start.
mean_response: from submission to end. mean_speed: run time on whole nodes / actual run
time, weighted by size. compared_s: the makespan of the jobs that section 2.4 compares.
These are the jobs that had ended under ``split`` when its last job limited by memory
ended. After that, half of that machine is idle for lack of jobs.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cosched.core.cluster.queue.halves.halves import Halves
from cosched.core.cluster.queue.halves.learner import LabelCheck, Learner
from cosched.core.cluster.queue.halves.placement import (
    ALL,
    LEARNED,
    PLACEMENTS,
    USUAL_PARTS,
    placement_of,
)
from cosched.core.cluster.queue.order import FCFS, LARGEST
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.policies import Policy
from cosched.core.symbiosis.labels import WRONG_RUNS, LabelRecord
from cosched.core.symbiosis.resources import Resource
from cosched.core.units import NS_PER_S
from cosched.sim.logs.swf import read_swf
from cosched.sim.symbiotic.driver import SharedMachine
from cosched.sim.symbiotic.matrix import Model
from cosched.sim.symbiotic.stream import StreamJob, StreamRecipe, make_stream, stream_of
from cosched.sim.virtual_time import Progress, VirtualTime, no_progress, part_of

NAMES = (*PLACEMENTS, LEARNED)
ORDERS = MappingProxyType({order.name: order for order in (FCFS, LARGEST)})
PROTOTYPE = "split"


@dataclass(frozen=True, slots=True)
class SharingRun:
    """A stream of jobs and the placements to run it under."""

    model: Model  #: the machine's speedups and the users' labels
    recipe: StreamRecipe  #: the stream; with a log, only its seed counts
    nodes: int = 4  #: nodes of two halves; 0: as many as the log's machine has
    order: str = "largest"  #: a name of ORDERS: the order of the queue
    queue_limit: int = 12  #: the greatest number of jobs that wait
    placements: tuple[str, ...] = NAMES  #: names of NAMES, each run on its own
    trace: Path | None = None  #: the log that replaces the recipe; None: no log
    strict: bool = False  #: the first bad line of the log is an error
    draw: str = "job"  #: one of stream.DRAWS: how the jobs of a log get applications
    #: The largest jobs that may have halves, as a part of the machine; None: the usual one
    #: of the placement.
    share_up_to: float | None = ALL
    wrong_runs: int = WRONG_RUNS  #: after so many a label has no effect; 0: each has one

    @property
    def name(self) -> str:
        """The name in the progress display."""
        return f"{self.trace.name if self.trace else 'stream'} {self.recipe.seed}"


@dataclass(frozen=True, slots=True)
class Shared:
    """The result of one placement. Jobs are by their place in the stream."""

    submit_ns: array[int]  #: when each job entered the queue, virtual time
    start_ns: array[int]  #: when each job started
    end_ns: array[int]  #: when each job ended
    halves: Sequence[Sequence[int]]  #: the node halves of each job
    counts: dict[str, int]  #: how often the planner took each branch
    checks: Sequence[LabelCheck]  #: each application's label against the observations


@dataclass(frozen=True, slots=True)
class SharingOutcome:
    """The result of a run."""

    run: SharingRun  #: the input
    nodes: int  #: the machine's nodes, also if the log gave them
    stream: Sequence[StreamJob]  #: the jobs that ran
    shared: dict[str, Shared]  #: by placement
    skipped: dict[str, int]  #: the log's bad lines by fault; empty: none, or no log
    #: By placement, the figures that the module's docstring defines.
    figures: dict[str, dict[str, float]] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Returns the outcome as JSON."""
        return {
            "seed": self.run.recipe.seed,
            "jobs": len(self.stream),
            "nodes": self.nodes,
            "skipped_lines": self.skipped,
            "applications": dict(
                sorted(Counter(entry.job.application for entry in self.stream).items())
            ),
            "placements": {
                name: {**self.figures[name], "counts": shared.counts}
                for name, shared in self.shared.items()
            },
        }


def carry_out(run: SharingRun, progress: Progress = no_progress) -> SharingOutcome:
    """Makes or reads the stream and runs it under each placement."""
    nodes, skipped = run.nodes, {}
    if run.trace is None:
        stream = make_stream(run.recipe, run.model)
    else:
        log = read_swf(run.trace, machine=run.nodes or None, strict=run.strict)
        nodes = log.workload.machine
        skipped = log.skipped_lines()
        stream = stream_of(log.workload, run.model, run.recipe, run.draw)
    shared = {}
    for count, name in enumerate(run.placements):
        own = part_of(progress, count, len(run.placements))
        shared[name] = simulate(run, stream, nodes, name, own)
    outcome = SharingOutcome(run, nodes, stream, shared, skipped)
    compared = compared_jobs(stream, shared.get(PROTOTYPE))
    for name, one in shared.items():
        outcome.figures[name] = figures_of(stream, one, compared)
    return outcome


def simulate(
    run: SharingRun,
    stream: Sequence[StreamJob],
    nodes: int,
    name: str,
    progress: Progress = no_progress,
) -> Shared:
    """Runs the stream under the placement of that name."""
    learner = Learner(run.model.labels)
    placement = placement_of(name, learner)
    engine = VirtualTime()
    machine = SharedMachine(
        engine,
        stream,
        Halves(((0, nodes - 1),), placement, learner, share_up_to=largest_part(run, name)),
        Policy(ORDERS[run.order], Easy),
        run.model.matrix,
        run.queue_limit,
        LabelRecord(run.wrong_runs),
    )
    engine.run(lambda: progress(machine.ended / len(stream)))
    return Shared(
        machine.submit_ns,
        machine.start_ns,
        machine.end_ns,
        machine.halves,
        asdict(machine.queue.planner.counts),
        learner.check(),
    )


def largest_part(run: SharingRun, name: str) -> float:
    """Returns the largest jobs that have halves under a placement, as a part of nodes."""
    own = run.share_up_to
    return USUAL_PARTS.get(name, ALL) if own is None else own


def compared_jobs(stream: Sequence[StreamJob], prototype: Shared | None) -> list[int]:
    """Returns the jobs that section 2.4 compares; all jobs if ``split`` did not run."""
    everything = list(range(len(stream)))
    if prototype is None:
        return everything
    ends = [
        prototype.end_ns[place]
        for place in everything
        if Resource.MEMORY in stream[place].job.limits
    ]
    if not ends:
        return everything
    return [place for place in everything if prototype.end_ns[place] <= max(ends)]


def figures_of(
    stream: Sequence[StreamJob], one: Shared, compared: Sequence[int]
) -> dict[str, float]:
    """Returns the figures of a result, as the module's docstring defines them. compared:
    the jobs of ``compared_s``."""
    took = [end - start for start, end in zip(one.start_ns, one.end_ns, strict=True)]
    waits = [start - at for at, start in zip(one.submit_ns, one.start_ns, strict=True)]
    begin_ns = min(one.submit_ns)
    mean_wait_s = sum(waits) / len(waits) / NS_PER_S
    own = sum(entry.job.size * entry.run_ns for entry in stream)
    spent = sum(entry.job.size * time for entry, time in zip(stream, took, strict=True))
    slowed = sum(time > entry.run_ns for entry, time in zip(stream, took, strict=True))
    return {
        "makespan_s": (max(one.end_ns) - begin_ns) / NS_PER_S,
        "compared_s": (max(one.end_ns[place] for place in compared) - begin_ns) / NS_PER_S,
        "compared_jobs": len(compared),
        "mean_wait_s": mean_wait_s,
        "mean_response_s": mean_wait_s + sum(took) / len(took) / NS_PER_S,
        "mean_speed": own / spent if spent else 1.0,
        "slowed_share": slowed / len(stream),
    }
