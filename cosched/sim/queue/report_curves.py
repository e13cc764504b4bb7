"""Computes the curves in the report of a simulated log: nodes in use over time, waits."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from cosched.core.units import NS_PER_S
from cosched.sim.logs.workload import Workload
from cosched.sim.queue.metrics import column

#: The time from the first submission to the last end is divided into so many pieces.
PIECES = 120
#: Digits of the figures: a picture shows no more.
_DIGITS = 4


def course(
    workload: Workload, start_ns: array[int], end_ns: array[int] | None = None
) -> dict[str, Any]:
    """Returns the course of a schedule in which every job started; times in seconds.

    ``end_ns``: by default each job ends when its run time is over. ``used``: the part of
    the nodes that jobs had in each piece of ``step_s``. ``waits_s``: a hundredth of the
    jobs waited at most the second one, and so on; the first is the least, the last the
    longest.
    """
    submit, start = column(workload.submit_ns), column(start_ns)
    end = start + column(workload.run_ns) if end_ns is None else column(end_ns)
    size = column(workload.size)
    first, last = int(submit.min()), int(end.max())
    edges = np.linspace(first, last, PIECES + 1)
    step_ns = (last - first) / PIECES
    waits = np.percentile((start - submit) / NS_PER_S, np.arange(101))
    used = np.zeros(PIECES)
    if step_ns:
        used = np.diff(_node_ns(start, end, size, edges)) / (workload.machine * step_ns)
    return {
        "step_s": step_ns / NS_PER_S,
        "used": [round(float(each), _DIGITS) for each in used],
        "waits_s": [round(float(each), _DIGITS) for each in waits],
    }


def _node_ns(start: Any, end: Any, size: Any, edges: Any) -> Any:
    """Returns the node-nanoseconds that jobs had had at each of these times, as floats:
    those of a large machine and a long log are more than an int64 can hold."""
    times = np.concatenate((start, end))
    order = np.argsort(times, kind="stable")
    times = times[order]
    busy = np.cumsum(np.concatenate((size, -size))[order])
    had = np.concatenate(([0.0], np.cumsum(busy[:-1] * np.diff(times).astype(float))))
    return np.interp(edges, times, had)
