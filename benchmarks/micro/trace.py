"""What the trace costs the scheduler daemon: its CPU time a switch with and without.

Two nodes run side by side under the same load of the machine, each with as many jobs that
take turns; one writes a trace, the other does not, and they change places each round. What
else a daemon does at a switch is the same: its share of a second does not count, only the
CPU time that a switch takes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.progress import track

from benchmarks.micro.load import idle, start
from cosched.core.settings import Settings
from cosched.linux.proc import process_cpu_ns
from cosched.node.client import request
from cosched.node.lifecycle import NodeOptions, start_node, stop_node
from cosched.shm.paths import NodePaths

SIDES = ("with", "without")


def measure(slice_: str, jobs: int, seconds: int, rounds: int) -> dict[str, Any]:
    """CPU microseconds a switch in each round, and their ratios."""
    taken = [
        _round(slice_, jobs, seconds, SIDES[:: -1 if number % 2 else 1])
        for number in track(range(rounds), "measuring", transient=True)
    ]
    ratios = [side["with"] / side["without"] for side in taken]
    return {
        "slice": slice_,
        "jobs": jobs,
        "seconds": seconds,
        "us_a_switch": taken,
        "ratio_median": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
    }


def _round(
    slice_: str, jobs: int, seconds: int, sides: tuple[str, ...]
) -> dict[str, float]:
    cpu = min(os.sched_getaffinity(0))
    children: list[int] = []
    with tempfile.TemporaryDirectory(prefix="cosched-b-", dir="/dev/shm") as directory:
        nodes = {side: NodePaths(Path(directory), side) for side in sides}
        settings = Settings().changed({"slice": slice_})
        try:
            for side, paths in nodes.items():
                trace = None if side == "with" else "off"
                start_node(paths, NodeOptions(settings, trace=trace))
                children += [start(idle, paths, f"load{n}", cpu) for n in range(jobs)]
            for paths in nodes.values():
                while len(request(paths, "status")["jobs"]) < jobs:
                    time.sleep(0.01)
            before = {side: _used(paths) for side, paths in nodes.items()}
            time.sleep(seconds)
            after = {side: _used(paths) for side, paths in nodes.items()}
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            for paths in nodes.values():
                stop_node(paths)
    return {side: _us_a_switch(before[side], after[side]) for side in sides}


def _used(paths: NodePaths) -> tuple[int, int]:
    """CPU nanoseconds of the scheduler daemon, and its switches."""
    status = request(paths, "status")
    used_ns = process_cpu_ns(status["pid"])
    if used_ns is None:
        raise SystemExit(f"trace: the daemon of {paths.node} has died; see {paths.log}")
    return used_ns, status["counters"].get("csw_switched", 0)


def _us_a_switch(before: tuple[int, int], after: tuple[int, int]) -> float:
    return (after[0] - before[0]) / 1e3 / (after[1] - before[1])


def main() -> None:
    parser = argparse.ArgumentParser(prog="dev bench trace", description=__doc__)
    parser.add_argument("--slice", default="20ms")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    row = measure(options.slice, options.jobs, options.seconds, options.rounds)
    medians = {
        side: statistics.median(r[side] for r in row["us_a_switch"]) for side in SIDES
    }
    print(
        f"scheduler daemon, slice {row['slice']}, {row['jobs']} jobs: "
        f"{medians['without']:.0f} us of CPU a switch without a trace, "
        f"{medians['with']:.0f} us with; ratio {row['ratio_median']:.3f} "
        f"({row['ratio_min']:.3f} to {row['ratio_max']:.3f} in {options.rounds} rounds)"
    )
    if options.json:
        options.json.write_text(json.dumps(row, indent=2))


if __name__ == "__main__":
    main()
