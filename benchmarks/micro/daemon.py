"""Measures the CPU time of a node's daemons while jobs take turns on one CPU."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from rich.progress import track

from benchmarks.experiment import Bench, positive
from benchmarks.micro.load import await_tasks, jobs_of, new_node, spin
from cosched.core.node.settings import Settings
from cosched.linux.proc import process_cpu_ns
from cosched.node.lifetime.start import NodeOptions
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths


def measure(slice_: str, jobs: int, seconds: int) -> dict[str, Any]:
    """CPU use of both daemons, as a percentage of one core."""
    cpu = min(os.sched_getaffinity(0))
    options = NodeOptions(Settings().changed({"slice": slice_}))
    with new_node(options, "/dev/shm") as paths, jobs_of(spin, paths, jobs, cpu):
        await_tasks(paths, jobs)
        before, began = _used(paths), time.monotonic()
        for _ in track(range(seconds), "measuring", transient=True):
            time.sleep(1)
        after, elapsed = _used(paths), time.monotonic() - began
    return {
        "slice": slice_,
        "jobs": jobs,
        "seconds": elapsed,
        "scheduler_percent": 100 * (after["scheduler"] - before["scheduler"]) / elapsed,
        "timer_percent": 100 * (after["timer"] - before["timer"]) / elapsed,
        "switches": after["switches"] - before["switches"],
    }


def _used(paths: NodePaths) -> dict[str, float]:
    status = request(paths, "status")
    return {
        "scheduler": (process_cpu_ns(status["pid"]) or 0) / 1e9,
        "timer": (process_cpu_ns(status["timer"]["pid"]) or 0) / 1e9,
        "switches": status["counters"].get("csw_switched", 0),
    }


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the figures, and a text of them."""
    row = measure(options.slice, options.jobs, options.seconds)
    text = (
        f"slice {row['slice']}, {row['jobs']} jobs, {row['switches']} switches in "
        f"{row['seconds']:.0f} s: scheduler daemon {row['scheduler_percent']:.2f}% and "
        f"timer daemon {row['timer_percent']:.2f}% of a core"
    )
    return [text], row


def main() -> None:
    bench = Bench("daemon", __doc__)
    bench.add_argument("--slice", default="100ms")
    bench.add_argument("--jobs", type=positive, default=4)
    bench.add_argument("--seconds", type=positive, default=20)
    bench.run(run)


if __name__ == "__main__":
    main()
