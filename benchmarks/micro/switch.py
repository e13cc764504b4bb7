"""How long a switch takes under full load: from the post of a request to the first
instruction of the new job on its CPU.

One node's daemons, one CPU, DOM jobs. Every job's task keeps that CPU busy. The measured
job has a second task on another CPU, which posts CMDSCH for it, as if it had trapped a
message, the moment the job becomes unscheduled and the load runs. That task is the
instrument: it leaves the job's class, so that its own sleeping and spinning does not move
the class's weight between CPUs. Two kinds of task:

    computing   it was in the middle of a computation, and goes on when the kernel gives
                it the CPU; the load computes too
    waiting     it slept in cosched_sleep_unscheduled, as a task waits for a message

Each runs with weights (proportional) and quotas (strict).
"""

from __future__ import annotations

import argparse
import mmap
import os
import statistics
import struct
import time
from collections.abc import Callable

import numpy as np

from benchmarks.experiment import Bench, need_cpus, positive
from benchmarks.micro.load import child, jobs_of, new_node, register, spin
from benchmarks.progress_lines import counted_steps
from cosched.core.node.settings import Settings
from cosched.linux.cgroups.cgroupfs import hierarchies, move, own_base
from cosched.node.lifetime.start import NodeOptions
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths
from cosched.shm._native import lib
from cosched.tables import table

EMPTY, ASKED = 0, 1


def run_measured(paths: NodePaths, cpu: int, board: mmap.mmap, waiting: bool) -> None:
    """The measured task: writes down when it first runs after each request."""
    os.sched_setaffinity(0, {cpu})
    link = register(paths, "measured", 0)
    pause = lib.cosched_sleep_unscheduled
    scheduled = lib.cosched_is_scheduled
    while True:
        if waiting:
            while pause(link):
                pass
        if board[0] == ASKED and scheduled(link):
            board[8:16] = struct.pack("q", time.monotonic_ns())
            board[0] = EMPTY


def leave_class() -> None:
    """Moves this process back to where it was before it became a task."""
    for hierarchy in hierarchies():
        base = own_base(hierarchy)
        if "cpu" in hierarchy.controllers and base is not None:
            move(base, os.getpid())


def granted(paths: NodePaths) -> int:
    """How many requests of the measured job have pulled a switch so far."""
    jobs = request(paths, "status")["jobs"]
    return next(int(job["granted"]) for job in jobs if job["name"] == "measured")


def sample(
    paths: NodePaths,
    link: object,
    board: mmap.mmap,
    count: int,
    advance: Callable[[], None],
) -> list[float]:
    """Microseconds of ``count`` switches, as seen by the task on the other CPU.

    A request that is refused, or that the timer overtakes, is no sample.
    """
    found: list[float] = []
    while len(found) < count:
        before = granted(paths)
        while lib.cosched_is_scheduled(link):
            time.sleep(0.001)  # the slice is still ours; the next job's turn ends it
        time.sleep(0.005 + 0.001 * (len(found) % 17))  # well into the other job's slice
        if lib.cosched_is_scheduled(link):
            continue
        board[0] = ASKED
        asked_ns = time.monotonic_ns()
        lib.cosched_looked(link)
        lib.cosched_arrived(link, 1)
        deadline = time.monotonic() + 2
        while board[0] == ASKED and time.monotonic() < deadline:
            pass
        board[0] = EMPTY
        if granted(paths) == before:
            continue
        ran_ns = struct.unpack("q", board[8:16])[0]
        found.append((ran_ns - asked_ns) / 1e3)
        advance()
    return found


def measure(mode: str, kind: str, dom: int, count: int) -> list[float]:
    """The latencies, in microseconds, of one combination."""
    cpu, other = sorted(os.sched_getaffinity(0))[:2]
    board = mmap.mmap(-1, 64)
    settings = Settings().changed({"slice": "40ms", "gmet": "1ms", "align": "off"})
    with (
        new_node(NodeOptions(settings, mode=mode), "/dev/shm") as paths,
        jobs_of(spin, paths, dom - 1, cpu),
        child(run_measured, paths, cpu, board, kind == "waiting"),
        counted_steps(f"{mode}, {kind}", count) as advance,
    ):
        os.sched_setaffinity(0, {other})
        try:
            link = register(paths, "measured", 1)
            try:
                leave_class()
                return sample(paths, link, board, count, advance)
            finally:
                lib.cosched_detach(link)
        finally:
            os.sched_setaffinity(0, {cpu, other})


def summarise(values: list[float]) -> dict[str, float]:
    """Median, 99th percentile and largest, in microseconds."""
    return {
        "samples": len(values),
        "median_us": statistics.median(values),
        "p99_us": float(np.percentile(values, 99)),
        "max_us": max(values),
    }


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Measures all combinations; returns their table, and the rows."""
    need_cpus(2)  # one for the jobs and one to ask from
    rows = []
    for mode in ("proportional", "strict"):
        for kind in ("waiting", "computing"):
            values = measure(mode, kind, options.dom, options.samples)
            rows.append({"mode": mode, "task": kind, **summarise(values)})
    cells = [
        (
            *(str(row[name]) for name in ("mode", "task", "samples")),
            *(f"{row[name]:.0f} us" for name in ("median_us", "p99_us", "max_us")),
        )
        for row in rows
    ]
    head = ("mode", "task", "samples", "median", "p99", "max")
    return table(head, cells, "<<>>>>"), {"dom": options.dom, "rows": rows}


def main() -> None:
    bench = Bench("switch", __doc__)
    bench.add_argument("--samples", type=positive, default=100, help="each combination's")
    bench.add_argument("--dom", type=positive, default=4, help="jobs on the CPU (4)")
    bench.run(run)


if __name__ == "__main__":
    main()
