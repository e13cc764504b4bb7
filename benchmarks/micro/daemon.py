"""Measures the CPU time of a node's daemons while jobs take turns on one CPU."""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.progress import track

from benchmarks.micro.load import spin, start
from cosched.core.node.settings import Settings
from cosched.linux.proc import process_cpu_ns
from cosched.node.service.start import NodeOptions, start_node
from cosched.node.service.stop import stop_node
from cosched.node.sockets.client import request
from cosched.shm.paths import NodePaths


def measure(slice_: str, jobs: int, seconds: int) -> dict[str, Any]:
    """CPU use of both daemons, as a percentage of one core."""
    cpu = min(os.sched_getaffinity(0))
    children: list[int] = []
    with tempfile.TemporaryDirectory(prefix="cosched-b-", dir="/dev/shm") as directory:
        paths = NodePaths(Path(directory), "bench")
        start_node(paths, NodeOptions(Settings().changed({"slice": slice_})))
        try:
            children += [start(spin, paths, f"load{n}", cpu) for n in range(jobs)]
            while len(request(paths, "status")["jobs"]) < jobs:
                time.sleep(0.01)
            before, began = _used(paths), time.monotonic()
            for _ in track(range(seconds), "measuring", transient=True):
                time.sleep(1)
            after, elapsed = _used(paths), time.monotonic() - began
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            stop_node(paths)
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


def main() -> None:
    parser = argparse.ArgumentParser(prog="dev bench daemon", description=__doc__)
    parser.add_argument("--slice", default="100ms")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    row = measure(options.slice, options.jobs, options.seconds)
    print(
        f"slice {row['slice']}, {row['jobs']} jobs, {row['switches']} switches in "
        f"{row['seconds']:.0f} s: scheduler daemon {row['scheduler_percent']:.2f}% and "
        f"timer daemon {row['timer_percent']:.2f}% of a core"
    )
    if options.json:
        options.json.write_text(json.dumps(row, indent=2))


if __name__ == "__main__":
    main()
