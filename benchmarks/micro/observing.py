"""What watching costs the jobs: two that communicate, with everything on and with nothing.

Two jobs of two ranks share this node's two CPUs in slices of half a second. By turns their
daemons keep a trace, serve metrics that are asked for every two seconds, and `cosched top`
is on a terminal; or none of that. The figure is the time until both jobs are done, a ratio
is of one turn with all to the same turn with none.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.progress import track

from benchmarks.micro.shim import installed, positive
from cosched.bench.build import build_program, default_cache
from cosched.core.errors import CoschedError
from cosched.core.settings import Settings
from cosched.node.client import request
from cosched.node.lifecycle import NodeOptions, start_node, stop_node
from cosched.shm.paths import NodePaths

WAVEFRONT = Path(__file__).resolve().parents[1] / "programs" / "wavefront.c"
SETTINGS = {"slice": "0.5s", "gmet": "50ms"}
ENDPOINT = "127.0.0.1:9435"
SCRAPE_S = 2.0
START_S = 60.0
ARMS = {
    "nothing": NodeOptions(Settings().changed(SETTINGS), trace="off"),
    "all": NodeOptions(Settings().changed(SETTINGS), metrics=ENDPOINT),
}


@contextmanager
def scraped(endpoint: str = ENDPOINT) -> Iterator[None]:
    """Somebody asks for the metrics, again and again. CoschedError if nobody answered."""
    over = threading.Event()
    answers: list[int] = []

    def scrape() -> None:
        while not over.wait(SCRAPE_S):
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
            except OSError:  # EIO: nobody has the terminal any more
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


def both_jobs(run_dir: Path, mpiexec: Path, program: Path) -> float:
    """Seconds until two jobs that start together are done."""
    began = time.monotonic()
    jobs = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "cosched.cli.run", "--run-dir", str(run_dir)),
                *("--mpi", str(mpiexec), "-n", "2", "--job", name, str(program)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    errors = [job.communicate()[1] for job in jobs]
    if any(job.returncode != 0 for job in jobs):
        raise CoschedError(f"a job failed: {''.join(errors).strip().splitlines()[-1:]}")
    return time.monotonic() - began


def turn(options: NodeOptions, mpiexec: Path, program: Path) -> tuple[float, float]:
    """The jobs' time in seconds, and the daemon's CPU as a part of it."""
    with tempfile.TemporaryDirectory(prefix="cosched-b-", dir="/tmp") as directory:
        paths = NodePaths(Path(directory), os.uname().nodename)
        start_node(paths, options)
        try:
            with ExitStack() as watchers:
                if options.metrics != "off":
                    watchers.enter_context(scraped())
                    watchers.enter_context(on_a_terminal(Path(directory)))
                before = request(paths, "status")["daemon_cpu_s"]
                took_s = both_jobs(Path(directory), mpiexec, program)
                used_s = request(paths, "status")["daemon_cpu_s"] - before
        finally:
            stop_node(paths)
    return took_s, used_s / took_s


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="dev bench observing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--mpi", help="an mpiexec or the folder of one")
    parser.add_argument("--rounds", type=positive, default=9, help="turns (default 9)")
    parser.add_argument("--preset", default="demo", help="of wavefront (default demo)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    words = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("observing: needs two CPUs")
    mpi = installed([words.mpi] if words.mpi else [])[0]
    if mpi.mpicc is None:
        raise CoschedError(f"{mpi.mpiexec}: no mpicc beside it to build wavefront with")
    program = build_program(WAVEFRONT, mpi.mpicc, default_cache(os.environ))
    seen: dict[str, list[tuple[float, float]]] = {arm: [] for arm in ARMS}
    for number in track(range(words.rounds + 1), "turns", transient=True):
        # Whoever goes first differs from turn to turn; the very first is to warm up.
        for arm in list(ARMS)[:: 1 if number % 2 else -1]:
            figures = turn(ARMS[arm], mpi.mpiexec, program)
            if number > 0:
                seen[arm].append(figures)
    median = {
        arm: tuple(map(statistics.median, zip(*figures, strict=True)))
        for arm, figures in seen.items()
    }
    ratios = [a[0] / n[0] for a, n in zip(seen["all"], seen["nothing"], strict=True)]
    middle = statistics.median(ratios)
    family = f"{mpi.family.title} {mpi.version}"
    (all_s, all_part), (nothing_s, nothing_part) = median["all"], median["nothing"]
    print(
        f"{family}: all {all_s:.2f} s, nothing {nothing_s:.2f} s, "
        f"ratio {middle:.3f} ({min(ratios):.3f}-{max(ratios):.3f})\n"
        f"scheduler daemon: {100 * all_part:.2f}% of a core, "
        f"without {100 * nothing_part:.2f}%"
    )
    row = {
        "family": family,
        "all_s": all_s,
        "nothing_s": nothing_s,
        "all_daemon": all_part,
        "nothing_daemon": nothing_part,
        "ratio": middle,
        "ratios": sorted(ratios),
    }
    if words.json:
        words.json.write_text(json.dumps(row, indent=2))


if __name__ == "__main__":
    try:
        main()
    except CoschedError as error:
        sys.exit(f"observing: {error}")
