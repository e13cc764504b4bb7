"""Measures the CPU time of observing a node, for each process, as a part of one core.

The processes are the scheduler daemon (without observers, with `cosched top`, and with
metrics read every two seconds), `cosched top` itself, and the metrics server. Jobs whose
tasks only sleep take turns. Each part is measured after its programs have started.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.progress import track

from benchmarks.micro.load import idle, start
from benchmarks.micro.observing import on_a_terminal, scrape_once, scraped
from benchmarks.micro.shim import positive
from benchmarks.options import bench_parser
from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.linux.ports import free_address
from cosched.node.service.lock import lock_holder
from cosched.node.service.start import NodeOptions, start_node
from cosched.node.service.stop import stop_node
from cosched.node.sockets.client import request
from cosched.shm.paths import NodePaths

START_S = 30.0
#: The start of a program (imports, the first picture) does not count.
SETTLE_S = 4.0
#: The pause between two reads of the metrics.
SCRAPE_S = 2.0


@dataclass(frozen=True, slots=True)
class Share:
    """CPU time of one process as a part of the time: 0.01 is one per cent of a core."""

    process: str
    during: str
    seconds: float
    share: float


def cpu_s(pid: int) -> float:
    """CPU time of a process and of its threads, ended ones too, in seconds.

    The clock and not /proc/PID/stat, whose hundredths of a second are as much as a daemon
    takes in ten.
    """
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3) makes it


def shares(pids: Mapping[str, int], during: str, seconds: float) -> list[Share]:
    """Measures each process for the next seconds."""
    before, began = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
    for _ in track(range(max(1, round(seconds))), during, transient=True):
        time.sleep(seconds / max(1, round(seconds)))
    took = time.monotonic() - began
    used = {name: cpu_s(pid) - before[name] for name, pid in pids.items()}
    return [Share(name, during, took, used[name] / took) for name in pids]


@contextmanager
def sleeping_jobs(paths: NodePaths, jobs: int) -> Iterator[None]:
    """Runs registered jobs that do nothing. CoschedError if they do not register."""
    cpu = min(os.sched_getaffinity(0))
    children = [start(idle, paths, f"job{number}", cpu) for number in range(jobs)]
    try:
        deadline = time.monotonic() + START_S
        while len(request(paths, "status")["jobs"]) < jobs:
            if time.monotonic() > deadline:
                raise CoschedError(f"the jobs did not register within {START_S:g} s")
            time.sleep(0.05)
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def measure(jobs: int, seconds: float, settle_s: float) -> list[Share]:
    """All parts, one after the other, on one node with the default settings."""
    found: list[Share] = []
    with tempfile.TemporaryDirectory(prefix="cosched-b-", dir="/tmp") as directory:
        paths = NodePaths(Path(directory), os.uname().nodename)
        endpoint = free_address()
        start_node(paths, NodeOptions(Settings(), metrics=endpoint))
        try:
            with sleeping_jobs(paths, jobs):
                daemon = int(request(paths, "status")["pid"])
                scrape_once(endpoint)  # from then on its server holds the lock
                metrics = lock_holder(paths.metrics_lock)
                if metrics is None:
                    raise CoschedError("the metrics process is not there")
                time.sleep(settle_s)
                found += shares({"daemon": daemon}, "nobody looks", seconds)
                with on_a_terminal(Path(directory)) as top:
                    time.sleep(settle_s)
                    pids = {"daemon": daemon, "top": top}
                    found += shares(pids, "top is on a terminal", seconds)
                with scraped(SCRAPE_S, endpoint):
                    time.sleep(settle_s)
                    pids = {"daemon": daemon, "metrics": metrics}
                    found += shares(pids, "metrics are asked for", seconds)
        finally:
            stop_node(paths)
    return found


def main() -> None:
    parser = bench_parser("watchers", __doc__)
    parser.add_argument("--jobs", type=positive, default=4, help="(default 4)")
    parser.add_argument("--seconds", type=float, default=30.0, help="a part (default 30)")
    parser.add_argument(
        "--settle", type=float, default=SETTLE_S, help="before a part (default 4)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    words = parser.parse_args()
    found = measure(words.jobs, words.seconds, words.settle)
    print(f"{words.jobs} jobs that sleep; % of a core over {words.seconds:g} s each")
    for row in found:
        print(f"  {row.process:<8} while {row.during:<22} {100 * row.share:>6.2f}%")
    if words.json:
        rows = [asdict(row) for row in found]
        words.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    try:
        main()
    except CoschedError as error:
        sys.exit(f"watchers: {error}")
