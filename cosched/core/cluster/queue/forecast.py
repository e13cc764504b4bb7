"""Forecasts when waiting jobs start, by running a copy of the queue into the future."""

from __future__ import annotations

from copy import deepcopy

from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.queue_commands import (
    ContinueJob,
    ReserveJob,
    ResizeJob,
    StartJob,
    SuspendJob,
    WakeAt,
)
from cosched.core.cluster.queue.queue_events import (
    JobContinued,
    JobEnded,
    JobSuspended,
    ResizeDone,
    Ticked,
)

#: Later jobs get no forecast.
JOBS_MOST = 500


def forecast(queue: QueueMachine, now_ns: int) -> dict[JobId, int]:
    """Returns the expected start of each waiting job that can start, in ns.

    Each job, running or waiting, is expected to take its walltime, and no other job is
    expected to come. If the walltime of a job is a guess, nothing after its end is known.
    A job that waits for one in another domain is expected to start at its turn. Changes of
    size and suspensions are done at once. The queue itself does not change.
    """
    future = deepcopy(queue)
    _carry_out(future, now_ns)
    ends = _ends(future)
    wanted = {job.number for job in future.waiting[:JOBS_MOST]}
    starts: dict[JobId, int] = {}
    wake_ns: int | None = None
    while True:
        ordered = False
        for command in future.handle(Ticked(now_ns)):
            if isinstance(command, StartJob | ReserveJob):
                number, job = command.job.number, command.job
                starts[number] = now_ns
                ends[number] = now_ns + future.place.walltime_ns(job)
            elif isinstance(command, ResizeJob | SuspendJob | ContinueJob):
                ordered = True
            elif isinstance(command, WakeAt):
                wake_ns = command.at_ns
        if ordered:
            _carry_out(future, now_ns)
            ends = _ends(future)
            continue  # starts may wait for the nodes
        times = [*ends.values()]
        if wake_ns is not None and wake_ns > now_ns:
            times.append(wake_ns)
        if wanted <= starts.keys() or not times:
            return {number: starts[number] for number in wanted & starts.keys()}
        now_ns = max(now_ns, min(times))
        over = [number for number, end_ns in ends.items() if end_ns <= now_ns]
        if not all(future.jobs[number].job.known for number in over):
            return {number: starts[number] for number in wanted & starts.keys()}
        for number in over:
            del ends[number]
            future.handle(JobEnded(now_ns, number))


def _ends(queue: QueueMachine) -> dict[JobId, int]:
    """Returns the expected end of each job that runs, in ns."""
    if not isinstance(queue.place, Elastic):
        return {number: end_ns for end_ns, number, _ in queue.place.ends}
    runs = queue.place.running.items()
    return {number: run.end_ns for number, run in runs if run.held and run.stop is None}


def _carry_out(queue: QueueMachine, now_ns: int) -> None:
    """Ends all changes of size, suspensions and continuations as they were ordered."""
    if not isinstance(queue.place, Elastic):
        return
    for number, change in list(queue.place.changes.items()):
        queue.handle(ResizeDone(now_ns, number, change.after, 0))
    for number, run in list(queue.place.running.items()):
        if run.stop is not None and run.stop.continues:
            queue.handle(JobContinued(now_ns, number))
        elif run.stop is not None and run.stop.since_ns is None:
            queue.handle(JobSuspended(now_ns, number))
