"""Describes the sizes of malleable jobs and their changes, for users and operators."""

from __future__ import annotations

from collections.abc import Iterable

from cosched.cluster.answers import ChangeInfo, PhasesInfo
from cosched.cluster.job_size import PastChange
from cosched.cluster.record import Record, State
from cosched.core.cluster.queue.sizes.fit import FittedExecution
from cosched.core.cluster.queue.sizes.prediction import PredictedExecution
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun
from cosched.core.units import NS_PER_S


def tasks_now(record: Record) -> int:
    """Returns the number of a job's tasks: of a malleable one that has nodes, on these."""
    job = record.submission
    if job.malleable and record.nodes:
        return len(record.nodes) * (job.ppn or 1)
    return job.tasks


def nodes_by_kind(records: Iterable[Record]) -> dict[str, int]:
    """Returns the nodes that malleable and rigid jobs have now."""
    found = {"malleable": 0, "rigid": 0}
    for record in records:
        if record.state in (State.STARTING, State.RUNNING):
            found["malleable" if record.size else "rigid"] += len(record.nodes)
    return found


def describe_changes(
    record: Record, past: Iterable[PastChange], run: ResizableRun | None
) -> list[ChangeInfo]:
    """Returns the changes of a job's size in their order, the open one last. run: the job
    in the queue, if it has nodes."""
    found = [_ended(change, run) for change in past]
    size = record.size
    if size is not None and size.change is not None and not record.state.over:
        found.append(
            ChangeInfo(
                ordered_ns=size.change.ordered_ns,
                ended_ns=None,
                before=len(size.places),
                after=len(size.change.after),
                reason=size.change.reason,
                refused="",
                stood_s=0.0,
                phases=None,
                slower=_slower(run, len(size.places), len(size.change.after)),
            )
        )
    return found


def _ended(change: PastChange, run: ResizableRun | None) -> ChangeInfo:
    return ChangeInfo(
        ordered_ns=change.ordered_ns,
        ended_ns=change.ended_ns,
        before=change.before,
        after=change.after,
        reason=change.reason,
        refused=change.refused,
        stood_s=change.cost_ns / NS_PER_S,
        phases=_phases(change),
        slower=None if change.refused else _slower(run, change.before, change.after),
    )


def _phases(change: PastChange) -> PhasesInfo | None:
    times = change.times
    if times is None:
        return None
    return PhasesInfo(
        prepare_s=change.prepare_ns / NS_PER_S,
        agree_s=times.agree_ns / NS_PER_S,
        wait_s=times.wait_ns / NS_PER_S,
        spawn_s=times.spawn_ns / NS_PER_S,
        connect_s=times.connect_ns / NS_PER_S,
        start_s=times.start_ns / NS_PER_S,
        move_s=times.move_ns / NS_PER_S,
        resume_s=times.resume_ns / NS_PER_S,
        empty_s=times.empty_ns / NS_PER_S,
        moved_bytes=times.moved_bytes,
    )


def _slower(run: ResizableRun | None, before: int, after: int) -> float | None:
    """Returns by which part an iteration takes longer than before; below 0 if it takes
    less. None if two sizes have not been measured."""
    if run is None or not isinstance(run.execution, FittedExecution | PredictedExecution):
        return None
    return run.execution.time_ns(after) / run.execution.time_ns(before) - 1.0
