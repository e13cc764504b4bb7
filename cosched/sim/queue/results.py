"""Writes the schedule of a run: a row for each job, in order of submission.

job          number in the log
user         as in the log, -1 if unknown
size         nodes
submit_s     as in the log
start_s      submission plus wait
wait_s       end_s     run_s
walltime_s   what the user asked for
nodes        the nodes of the job (0-3,8), if they were kept
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.core.cluster.queue.nodes import Intervals, format_nodes
from cosched.core.units import NS_PER_S
from cosched.sim.logs.swf import seconds
from cosched.sim.logs.workload import Workload
from cosched.sim.queue.columns import Columns, save_columns
from cosched.sim.queue.metrics import column


@dataclass(frozen=True, slots=True)
class Schedule:
    """The start of each job of a workload."""

    workload: Workload  #: the jobs, in order of submission
    start_ns: array[int]  #: when each job started, virtual time
    nodes: Sequence[Intervals]  #: the nodes of each job; empty unless kept


def save(
    schedule: Schedule, stem: Path, command: str, figures: Mapping[str, object]
) -> tuple[Path, Path]:
    """Writes ``stem.npz`` and ``stem.csv``; returns their paths."""
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
