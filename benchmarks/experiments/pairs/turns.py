"""Finds how much longer than it runs a job keeps its nodes from the next one. Pure.

A scheduler may find the first job of its queue at once, and one that fits behind it only
when it looks for such jobs. So this is measured with a queue of jobs of several sizes: it
is the time with which the simulation of these jobs has their mean wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from benchmarks.experiments.pairs.workload import Plan, PlannedJob, as_log, plan_jobs
from cosched.core.units import NS_PER_S
from cosched.sim.logs.workload import Estimates
from cosched.sim.queue.queue_runs import simulate

#: The jobs of the queue for each node, and their mean run time: half a minute together.
JOBS, RUN_S = 4, 4.0
_MOST_S, _STEPS = 8.0, 30


def queued_jobs(nodes: int) -> list[PlannedJob]:
    """Returns jobs that are all submitted at once."""
    plan = Plan(pairs=0, unpaired=2 * JOBS * nodes, nodes=nodes, run_s=RUN_S)
    return [replace(job, at_s=0.0) for job in plan_jobs(plan)[0]]


def fitted_turn_s(
    engine: str,
    nodes: int,
    jobs: Sequence[PlannedJob],
    waits_s: Sequence[float],
    lag_s: float,
) -> float:
    """Returns the time, 0 s to 8 s. jobs: with the times of their submissions. waits_s:
    until each began. lag_s: from the submission of a job to its begin on free nodes."""
    wanted_s = mean(waits_s)
    least_s, most_s = 0.0, _MOST_S
    for _ in range(_STEPS):
        middle_s = (least_s + most_s) / 2
        if _mean_wait_s(engine, nodes, jobs, lag_s, middle_s) < wanted_s:
            least_s = middle_s
        else:
            most_s = middle_s
    return most_s


def _mean_wait_s(
    engine: str, nodes: int, jobs: Sequence[PlannedJob], lag_s: float, turn_s: float
) -> float:
    log = as_log("queue", engine, nodes, jobs, lag_s, turn_s)
    schedule, _ = simulate(log, "easy", Estimates.LOG)
    return mean(
        start_ns / NS_PER_S - job.at_s
        for job, start_ns in zip(jobs, schedule.start_ns, strict=True)
    )
