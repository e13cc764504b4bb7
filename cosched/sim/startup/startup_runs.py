"""Simulates starts of jobs, and divides the dispatch time into its parts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cosched.core.units import NS_PER_S
from cosched.sim.startup.counted import Tables, tables_for
from cosched.sim.startup.driver import NodeTimes, Start
from cosched.sim.startup.model import PAPERS_ORDER, Stage, StartupRun
from cosched.sim.virtual_time import NEVER, Progress, no_progress


@dataclass(frozen=True, slots=True)
class StartupOutcome:
    """The result of a run."""

    run: StartupRun  #: the input
    times: Sequence[NodeTimes]  #: by the node's place in the tree
    sent_s: float  #: when the manager had written the job object, virtual time
    messages: int  #: messages of all nodes and the manager
    bytes: int  #: their content, without overhead
    cpu_s: float  #: CPU time of the simulator

    @property
    def total_s(self) -> float:
        """The dispatch time: until the last node has done its last stage."""
        return self.last_s(self.run.stages[-1])

    def last_s(self, stage: Stage) -> float:
        """Returns when the last node had done a stage."""
        return max(node.done_ns[stage] for node in self.times) / NS_PER_S

    def parts_s(self) -> dict[Stage, float]:
        """Returns the part of each stage: from the last node's end of the stage before."""
        parts = dict.fromkeys(PAPERS_ORDER, 0.0)
        before_s = 0.0
        for stage in self.run.stages:
            end_s = self.last_s(stage)
            parts[stage], before_s = end_s - before_s, end_s
        return parts

    def arrivals_s(self) -> list[float]:
        """Returns how long the job object took to the last node of each level."""
        return [
            max(self.times[place].arrived_ns for place in level) / NS_PER_S - self.sent_s
            for level in self.run.tree.levels(0)
        ]

    def exchange_s(self) -> tuple[list[float | None], list[float]]:
        """Returns, by place, when a node had the tables of its children's subtrees (None
        without children) and when it had all tables. It counts from the moment when the
        first node had its own."""
        begin_ns = min(node.done_ns[Stage.ASSIGN] for node in self.times)
        partial = [
            None if node.partial_ns == NEVER else (node.partial_ns - begin_ns) / NS_PER_S
            for node in self.times
        ]
        return partial, [(node.complete_ns - begin_ns) / NS_PER_S for node in self.times]

    def document(self) -> dict[str, Any]:
        """Returns the outcome as JSON."""
        run = self.run
        return {
            "design": run.design,
            "nodes": run.nodes,
            "tasks": run.tasks,
            "arity": run.arity,
            "chunk_bytes": run.chunk_bytes,
            "object_bytes": run.object_of(0),
            "table_bytes": run.table_bytes,
            "order": run.order,
            "costs": asdict(run.costs),
            "total_s": self.total_s,
            "parts_s": {stage.value: part for stage, part in self.parts_s().items()},
            "arrivals_s": self.arrivals_s(),
            "messages": self.messages,
            "bytes": self.bytes,
            "cpu_s": self.cpu_s,
        }


def carry_out(
    run: StartupRun, progress: Progress = no_progress, how: Tables | None = None
) -> StartupOutcome:
    """Simulates a start. how: by default the one that suits the number of nodes."""
    began_s = time.process_time()
    start = Start(run, how or tables_for(run.nodes))
    times = start.carry_out(progress)
    cpu_s = time.process_time() - began_s
    return StartupOutcome(
        run,
        times,
        start.sent_ns / NS_PER_S,
        start.network.messages,
        start.network.bytes,
        cpu_s,
    )
