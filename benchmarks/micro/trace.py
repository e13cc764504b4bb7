"""Measures the trace's share of the scheduler daemon's CPU time.

On a busy machine two daemons cannot be compared to a hundredth. So the recorder of one
daemon is timed from inside, by the CPU clock of its thread, while jobs take turns. It runs
with the trace and without; without, it still keeps the last steps and the jobs' accounts.
The cost of the clock is measured and subtracted, except for its effect on the caches.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.experiment import Bench, positive
from benchmarks.micro.load import idle, jobs_of
from benchmarks.progress_lines import steps_of
from cosched.node.records.recorder import Recorder
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths
from daemons.scheduler import Starter, parse, serve

CLOCK_SAMPLES = 10_000


def timed_daemon(figures: Path, arguments: list[str]) -> None:
    """A scheduler daemon that writes the time of its recorder at its end."""
    clock = time.thread_time_ns
    began = clock()
    for _ in range(CLOCK_SAMPLES):
        clock()
    clock_ns = (clock() - began) / CLOCK_SAMPLES
    spent = {"ns": 0.0, "record": 0, "flush": 0}

    def timed(function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            before = clock()
            function(*arguments)
            spent["ns"] += clock() - before - clock_ns
            spent[function.__name__] += 1

        return call

    for name in ("record", "flush"):
        setattr(Recorder, name, timed(getattr(Recorder, name)))
    thread_ns, process_ns = clock(), time.process_time_ns()  # the cost of the start
    serve(parse(arguments), Starter(sys.stdout.fileno()))
    row = {
        **spent,
        "thread_ns": clock() - thread_ns,
        "process_ns": time.process_time_ns() - process_ns,
    }
    figures.write_text(json.dumps(row))


def measure(slice_: str, jobs: int, seconds: int, trace: str) -> dict[str, float]:
    """Figures of one daemon's life; ``trace`` as its option."""
    cpu = min(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="cosched-b-", dir="/dev/shm") as directory:
        paths = NodePaths(Path(directory), "bench")
        figures = paths.run_dir / "figures.json"
        command = [
            *(sys.executable, "-m", "benchmarks.micro.trace"),
            *("--daemon", str(figures), "--"),
            *("--run-dir", directory, "--node", paths.node),
            *("--slice", slice_, "--trace", trace),
        ]
        daemon = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert daemon.stdout is not None
        try:
            daemon.stdout.readline()
            with jobs_of(idle, paths, jobs, cpu):
                time.sleep(seconds)
        finally:
            request(paths, "down")
            daemon.wait()
        row = json.loads(figures.read_text())
    return {
        "us_a_step": row["ns"] / 1e3 / row["record"],
        "percent_of_thread": 100 * row["ns"] / row["thread_ns"],
        "percent_of_process": 100 * row["ns"] / row["process_ns"],
    }


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Measures with and without a trace, in turn; returns the medians as text."""
    rounds = [
        {
            trace: measure(options.slice, options.jobs, options.seconds, trace)
            for trace in ("16M", "off")
        }
        for _ in steps_of(range(options.rounds), "measuring")
    ]
    lines = []
    for trace, what in (("16M", "with a trace"), ("off", "without")):
        median = {
            name: statistics.median(r[trace][name] for r in rounds)
            for name in rounds[0][trace]
        }
        lines.append(
            f"{what}: {median['us_a_step']:.1f} us of CPU a step, "
            f"{median['percent_of_thread']:.2f}% of the daemon's thread that decides, "
            f"{median['percent_of_process']:.2f}% of the daemon"
        )
    return lines, rounds


def main() -> None:
    if sys.argv[1:2] == ["--daemon"]:
        timed_daemon(Path(sys.argv[2]), sys.argv[4:])
        return
    bench = Bench("trace", __doc__)
    bench.add_argument("--slice", default="20ms")
    bench.add_argument("--jobs", type=positive, default=4)
    bench.add_argument("--seconds", type=positive, default=12)
    bench.add_argument("--rounds", type=positive, default=3)
    bench.run(run)


if __name__ == "__main__":
    main()
