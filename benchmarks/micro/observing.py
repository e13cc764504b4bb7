"""Measures the cost of observation for two jobs that communicate.

Two jobs of two ranks share this node's two CPUs in slices of half a second. They compute
and exchange messages without end. Their daemons keep a trace and serve metrics all the
time. Windows alternate: in one, the metrics are read and `cosched top` runs on a terminal;
in the next, neither. All windows have the same number of whole slices of each job. The
figure of a window is the number of messages a second. A ratio compares two successive
windows, so that slow changes of the machine cancel out. `bench trace` measures the cost of
the trace. Between windows `top` is suspended and continued, as by Ctrl-Z and `fg`.
"""

from __future__ import annotations

import argparse
import os
import pty
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks.experiment import Bench, above_zero, need_cpus, positive, quartiles
from benchmarks.micro.load import START_S, await_tasks, new_node
from benchmarks.mpi import PROGRAMS, build, find
from benchmarks.progress_lines import steps_of
from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.node.lifetime.start import NodeOptions
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths

#: About a third of a millisecond between two messages, and no end.
WORK = ("--steps", "1000000000", "--work", "300000")
SETTINGS = {"slice": "0.5s", "gmet": "50ms"}
WATCHERS = ("top", "metrics")
ENDPOINT = "127.0.0.1:9435"
#: After a change, before the window that is measured.
SETTLE_S = 1.0


@contextmanager
def scraped(every_s: float, endpoint: str = ENDPOINT) -> Iterator[None]:
    """Reads the metrics again and again. CoschedError if there was no answer."""
    over = threading.Event()
    answers: list[int] = []

    def scrape() -> None:
        while not over.wait(every_s):
            answers.append(scrape_once(endpoint))

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if not answers:
        raise CoschedError(f"{endpoint}: no metrics were served")


def scrape_once(endpoint: str) -> int:
    """Bytes of the metrics now; waits for a server that has just been started."""
    with urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=10) as answer:
        return len(answer.read())


@contextmanager
def on_a_terminal(run_dir: Path) -> Iterator[int]:
    """`cosched top` shows the node on a terminal of 80 columns, before anything begins; its
    pid. CoschedError if it does not, or ended early."""
    ours, its = pty.openpty()
    shown = threading.Event()
    top = subprocess.Popen(
        [sys.executable, "-m", "cosched.cli.main", "top", "--run-dir", str(run_dir)],
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
    )
    os.close(its)

    def drain() -> None:
        screen = b""
        while True:
            try:
                screen = screen[-4096:] + os.read(ours, 65536)
            except OSError:  # EIO: no process has the terminal any more
                return
            if os.uname().nodename.encode() in screen:
                shown.set()

    reader = threading.Thread(target=drain)
    reader.start()
    try:
        if not shown.wait(START_S):
            raise CoschedError(f"cosched top showed no node within {START_S:g} s")
        yield top.pid
        if top.poll() is not None:
            raise CoschedError(f"cosched top ended with {top.returncode}")
    finally:
        top.terminate()
        top.wait()
        reader.join()
        os.close(ours)


@contextmanager
def suspended(top: int) -> Iterator[None]:
    """Our child `top` does nothing meanwhile. SIGSTOP would not do: its library takes each
    SIGCONT that follows no SIGTSTP for a start, and has one thread more that polls."""
    os.kill(top, signal.SIGTSTP)
    os.waitid(os.P_PID, top, os.WSTOPPED)
    try:
        yield
    finally:
        os.kill(top, signal.SIGCONT)


@contextmanager
def endless_jobs(paths: NodePaths, mpiexec: Path, program: Path) -> Iterator[None]:
    """Two jobs that share the CPUs. CoschedError if they do not come, or end."""
    jobs = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "cosched.cli.run.main"),
                *("--run-dir", str(paths.run_dir)),
                *("--mpi", str(mpiexec), "-n", "2", "--job", name, str(program), *WORK),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name in ("one", "two")
    ]
    try:
        await_tasks(paths, 4)
        yield
        if any(job.poll() is not None for job in jobs):
            raise CoschedError("a job ended early")
    finally:
        for job in jobs:
            job.terminate()
        for job in jobs:
            job.wait()


def messages(paths: NodePaths) -> tuple[int, float]:
    """How many messages the jobs have sent, and when that was."""
    jobs = request(paths, "status")["jobs"]
    sent = sum(task["counters"]["sent"] for job in jobs for task in job["tasks"])
    return sent, time.monotonic()


def rate(paths: NodePaths, seconds: float) -> float:
    """Messages a second in a window."""
    time.sleep(SETTLE_S)
    sent, began = messages(paths)
    time.sleep(seconds)
    sent_by_then, ended = messages(paths)
    return (sent_by_then - sent) / (ended - began)


def watched_to_unwatched(
    mpiexec: Path,
    program: Path,
    pairs: int,
    seconds: float,
    watchers: Collection[str],
    scrape_s: float,
) -> list[float]:
    """The ratio of each pair of windows. watchers: of ``WATCHERS``."""
    settings = Settings().changed(SETTINGS)
    ratios = []
    with (
        new_node(NodeOptions(settings, metrics=ENDPOINT)) as paths,
        endless_jobs(paths, mpiexec, program),
        on_a_terminal(paths.run_dir) as top,
    ):
        for number in steps_of(range(pairs), "windows"):
            found = {}
            # The order differs from pair to pair.
            for watched in (number % 2 == 0, number % 2 == 1):
                shown = watched and "top" in watchers
                asked = watched and "metrics" in watchers
                with (
                    nullcontext() if shown else suspended(top),
                    scraped(scrape_s) if asked else nullcontext(),
                ):
                    found[watched] = rate(paths, seconds)
            ratios.append(found[True] / found[False])
    return ratios


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the ratios, and a text of their median."""
    need_cpus(2)
    mpi = find(options.mpi)
    program = build(PROGRAMS / "bulk.c", mpi)
    watchers = (options.watch,) if options.watch else WATCHERS
    ratios = watched_to_unwatched(
        mpi.mpiexec, program, options.pairs, options.window, watchers, options.scrape
    )
    family = f"{mpi.family.title} {mpi.version}"
    low, middle, high = quartiles(ratios)
    lines = [
        f"{family}: watched / unwatched {middle:.4f} of the messages a second",
        f"quartiles {low:.3f} to {high:.3f} of {len(ratios)} pairs",
    ]
    return lines, {"family": family, "ratio": middle, "ratios": sorted(ratios)}


def main() -> None:
    bench = Bench("observing", __doc__)
    add = bench.add_argument
    add("--mpi", help="an mpiexec or the folder of one")
    add("--pairs", type=positive, default=40, help="(default 40)")
    add("--window", type=above_zero, default=4.0, metavar="S", help="(default 4)")
    every = "metrics are asked for every S, once a window at least (default 4)"
    add("--scrape", type=above_zero, default=4.0, metavar="S", help=every)
    add("--watch", choices=WATCHERS, help="by this alone, not by both at once")

    def checked(options: argparse.Namespace) -> tuple[list[str], object]:
        if options.scrape >= options.window + SETTLE_S:
            bench.error("--scrape: nobody would ask within a window")
        return run(options)

    bench.run(checked)


if __name__ == "__main__":
    main()
