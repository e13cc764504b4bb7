"""Measures the CPU time of observing a node, for each process, as a part of one core.

The processes are the scheduler daemon (without observers, with `cosched top`, and with
metrics read every two seconds), `cosched top` itself, and the metrics server. Jobs whose
tasks only sleep take turns. Each part is measured after its programs have started.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.experiment import Bench, above_zero, positive
from benchmarks.micro.load import await_tasks, idle, jobs_of, new_node
from benchmarks.micro.observing import on_a_terminal, scrape_once, scraped
from benchmarks.progress_lines import steps_of
from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.linux.ports import free_address
from cosched.node.lifetime.start import NodeOptions
from cosched.node.sockets.client import request
from cosched.rundir.lock import lock_holder
from cosched.tables import table

#: The start of a program (imports, the first picture) does not count.
SETTLE_S = 4.0
#: The pause between two reads of the metrics.
SCRAPE_S = 2.0


@dataclass(frozen=True, slots=True)
class Share:
    """Holds the CPU time of one process over a part of the measurement."""

    process: str  #: its name for the table
    during: str  #: the part of the measurement
    seconds: float  #: elapsed time of that part
    share: float  #: CPU time over elapsed time; 0.01 is one per cent of a core


def cpu_s(pid: int) -> float:
    """CPU time of a process and of its threads, ended ones too, in seconds.

    The clock and not /proc/PID/stat, whose hundredths of a second are as much as a daemon
    takes in ten.
    """
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3) makes it


def shares(pids: Mapping[str, int], during: str, seconds: float) -> list[Share]:
    """Measures each process for the next seconds."""
    before, began = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
    for _ in steps_of(range(max(1, round(seconds))), during):
        time.sleep(seconds / max(1, round(seconds)))
    took = time.monotonic() - began
    used = {name: cpu_s(pid) - before[name] for name, pid in pids.items()}
    return [Share(name, during, took, used[name] / took) for name in pids]


def measure(jobs: int, seconds: float, settle_s: float) -> list[Share]:
    """All parts, one after the other, on one node with the default settings."""
    found: list[Share] = []
    endpoint = free_address()
    cpu = min(os.sched_getaffinity(0))
    with (
        new_node(NodeOptions(Settings(), metrics=endpoint)) as paths,
        jobs_of(idle, paths, jobs, cpu),
    ):
        await_tasks(paths, jobs)
        daemon = int(request(paths, "status")["pid"])
        scrape_once(endpoint)  # from then on its server holds the lock
        metrics = lock_holder(paths.metrics_lock)
        if metrics is None:
            raise CoschedError("the metrics process is not there")
        time.sleep(settle_s)
        found += shares({"daemon": daemon}, "nobody looks", seconds)
        with on_a_terminal(paths.run_dir) as top:
            time.sleep(settle_s)
            pids = {"daemon": daemon, "top": top}
            found += shares(pids, "top is on a terminal", seconds)
        with scraped(SCRAPE_S, endpoint):
            time.sleep(settle_s)
            pids = {"daemon": daemon, "metrics": metrics}
            found += shares(pids, "metrics are asked for", seconds)
    return found


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the shares, and a table of them."""
    found = measure(options.jobs, options.seconds, options.settle)
    head = f"{options.jobs} jobs that sleep; % of a core over {options.seconds:g} s each"
    rows = [
        (row.process, f"while {row.during}", f"{100 * row.share:.2f}%") for row in found
    ]
    return [head, *table((), rows, "<<>", indent=2)], found


def main() -> None:
    bench = Bench("watchers", __doc__)
    bench.add_argument("--jobs", type=positive, default=4, help="(default 4)")
    bench.add_argument(
        "--seconds", type=above_zero, default=30.0, help="a part (default 30)"
    )
    bench.add_argument(
        "--settle", type=float, default=SETTLE_S, help="before a part (default 4)"
    )
    bench.run(run)


if __name__ == "__main__":
    main()
