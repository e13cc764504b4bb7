"""Computes the usual figures of a schedule.

wait: from submission to start. response: from submission to end. slowdown: response /
run time, over jobs that ran at all. bounded slowdown (Feitelson): as slowdown, but run
times under ten seconds count as ten, and never below one. utilisation: node-seconds used
/ node-seconds of the machine, from the first submission to the last end (the makespan).
load: node-seconds of the jobs / those of the machine between first and last submission.
"""

from __future__ import annotations

from array import array
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cosched.core.units import NS_PER_S
from cosched.sim.logs.workload import Workload

BOUND_NS = 10 * NS_PER_S

Column: TypeAlias = "npt.NDArray[np.int64]"


def column(values: array[int]) -> Column:
    """Returns the same memory as a numpy array."""
    return np.frombuffer(values, dtype=np.int64)


def summarise(
    workload: Workload, start_ns: array[int], end_ns: array[int] | None = None
) -> dict[str, float]:
    """Returns the figures of a schedule in which every job started; times in seconds.

    ``end_ns``: by default each job ends when its run time is over.
    """
    submit, run = column(workload.submit_ns), column(workload.run_ns)
    size, start = column(workload.size), column(start_ns)
    end = start + run if end_ns is None else column(end_ns)
    wait = start - submit
    response = end - submit
    ran = run > 0
    slowdown = response[ran] / run[ran]
    bounded = np.maximum(response / np.maximum(run, BOUND_NS), 1.0)
    makespan_s = float(end.max() - submit.min()) / NS_PER_S
    span_s = float(submit.max() - submit.min()) / NS_PER_S
    node_s = float((size * (run / NS_PER_S)).sum())
    wait_s = wait / NS_PER_S
    return {
        "jobs": len(workload),
        "mean_wait_s": float(wait_s.mean()),
        "median_wait_s": float(np.median(wait_s)),
        "p95_wait_s": float(np.percentile(wait_s, 95)),
        "max_wait_s": float(wait_s.max()),
        "mean_response_s": float(response.mean()) / NS_PER_S,
        "max_response_s": float(response.max()) / NS_PER_S,
        "mean_slowdown": float(slowdown.mean()) if slowdown.size else 1.0,
        "mean_bounded_slowdown": float(bounded.mean()),
        "median_bounded_slowdown": float(np.median(bounded)),
        "p95_bounded_slowdown": float(np.percentile(bounded, 95)),
        "utilisation": node_s / (workload.machine * makespan_s) if makespan_s else 0.0,
        "makespan_s": makespan_s,
        "load": node_s / (workload.machine * span_s) if span_s else 0.0,
    }
