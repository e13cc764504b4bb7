"""Measures the CPU time of a node's daemons: idle, with one job, and while jobs take turns.

All jobs have one task, on one CPU. Some compute. The others send: they wait half of the
time, and ask for a switch in each turn of another job.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.experiment import Bench, positive
from benchmarks.micro.load import await_tasks, jobs_of, new_node, send, spin
from benchmarks.micro.watchers import cpu_s
from benchmarks.progress_lines import steps_of
from cosched.core.node.settings import Settings
from cosched.node.lifetime.start import NodeOptions
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths
from cosched.tables import table

#: The start of the jobs does not count.
SETTLE_S = 3.0


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one node."""

    slice: str  #: the slice, as it is set
    computing: int  #: the number of jobs that compute
    sending: int  #: the number of jobs that send
    switches_per_s: float  #: the switches in a second
    scheduler_percent: float  #: CPU time of the scheduler daemon, in percent of a core
    timer_percent: float  #: CPU time of the timer daemon, in percent of a core


def measure(slice_: str, computing: int, sending: int, seconds: int) -> Row:
    """Returns the figures of a node with these jobs."""
    cpu = min(os.sched_getaffinity(0))
    options = NodeOptions(Settings().changed({"slice": slice_}))
    with (
        new_node(options, "/dev/shm") as paths,
        jobs_of(spin, paths, computing, cpu),
        jobs_of(send, paths, sending, cpu),
    ):
        await_tasks(paths, computing + sending)
        time.sleep(SETTLE_S)
        before, began = _used(paths), time.monotonic()
        what = f"slice {slice_}, {computing} + {sending} jobs"
        for _ in steps_of(range(seconds), what):
            time.sleep(1)
        after, elapsed = _used(paths), time.monotonic() - began
    switches, scheduler, timer = (
        (now - then) / elapsed for now, then in zip(after, before, strict=True)
    )
    return Row(slice_, computing, sending, switches, 100 * scheduler, 100 * timer)


def _used(paths: NodePaths) -> tuple[float, float, float]:
    """Returns the switches so far, and the CPU times of both daemons."""
    status = request(paths, "status")
    switches = sum(status["counters"].get(n, 0) for n in ("csw_switched", "sch_granted"))
    return switches, cpu_s(status["pid"]), cpu_s(status["timer"]["pid"])


def run(options: argparse.Namespace) -> tuple[list[str], Sequence[Row]]:
    """Returns the lines of a table, and its rows."""
    jobs = dict.fromkeys([(0, 0), (1, 0), (options.computing, options.sending)])
    rows = [
        measure(slice_, computing, sending, options.seconds)
        for slice_ in options.slices
        for computing, sending in jobs
    ]
    cells = [
        (
            row.slice,
            f"{row.computing} + {row.sending}",
            f"{row.switches_per_s:.1f}",
            f"{row.scheduler_percent:.3f}%",
            f"{row.timer_percent:.3f}%",
        )
        for row in rows
    ]
    heads = ("slice", "jobs that compute + send", "switches/s", "scheduler", "timer")
    return table(heads, cells, "<<>>>"), rows


def main() -> None:
    bench = Bench("daemon", __doc__)
    bench.add_argument("--slices", nargs="+", default=["100ms", "auto"], metavar="SLICE")
    bench.add_argument("--computing", type=int, default=4, help="jobs (default 4)")
    bench.add_argument("--sending", type=int, default=4, help="jobs (default 4)")
    bench.add_argument("--seconds", type=positive, default=20)
    bench.run(run)


if __name__ == "__main__":
    main()
