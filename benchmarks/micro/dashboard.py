"""Measures `cosched dashboard` beside a played domain: its server and its page.

A process plays the nodes and jobs at real sockets, so the server does all that it does on a
cluster. Needs Debian's chromium and selenium, which scripts/dev browser installs:

    .venv-browser/bin/python -m benchmarks.micro.dashboard --nodes 64 --jobs 1000

CPU time is a fraction of one core. The page's is that of all processes of the browser,
which also draw without a graphics card. The heap of the page is taken after a collection.

An hour in a quarter of an hour:

    .venv-browser/bin/python -m benchmarks.micro.dashboard --seconds 3600 --factor 4

Then the wall clocks of the server and of the played domain go four times as fast, and the
time between two looks is a quarter. So the server makes each look of the hour, and gets
each job and each turn of the hour; nothing is left out. CPU time is that of the looks, as a
fraction of the hour. The measurement fails if looks are missing. Jobs come as others end,
so there are as many at the end as at the begin. --no-page leaves out the browser, which
takes more CPU time than the server; it needs neither chromium nor selenium.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.chromium import chromium, open_page
from benchmarks.experiment import Bench, above_zero, positive
from cosched.cli.jobs.dashboard import INTERVAL_LEAST_S
from cosched.core.errors import CoschedError

MIB = 1 << 20
SIZE = (1280, 1600)
#: The part of the looks that must have been made.
LOOKS_LEAST = 0.95


@contextmanager
def running(*words: str) -> Iterator[tuple[psutil.Process, str, float]]:
    """Runs a Python module during the block; yields its process, its first line, and how
    long that took."""
    began_s = time.monotonic()
    done = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert done.stdout is not None
        line = done.stdout.readline().strip()
        yield psutil.Process(done.pid), line, time.monotonic() - began_s
    finally:
        done.terminate()
        done.wait()


def cpu_s(processes: Iterable[psutil.Process]) -> float:
    """Returns the CPU time of these processes so far."""
    return sum(each.cpu_times().user + each.cpu_times().system for each in processes)


def heap_mib(driver: Any) -> float:
    """Returns the memory of the page's objects after a collection, in MiB."""
    driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    used: float = driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"]
    return used / MIB


def start_up(run_dir: Path, repeat: int) -> dict[str, list[float]]:
    """Returns how long commands took to print their first line: the dashboard's address,
    and for comparison the version."""
    words = {
        "dashboard": served(run_dir, "2"),
        "version": ("cosched.cli.main", "--version"),
    }
    found: dict[str, list[float]] = {name: [] for name in words}
    for _ in range(repeat):
        for name, each in words.items():
            with running(*each) as (_, _, took_s):
                found[name].append(took_s)
    return found


def served(run_dir: Path, interval: str) -> tuple[str, ...]:
    """Returns the words of the command."""
    words = ("--no-open", "--run-dir", str(run_dir), "--interval", interval)
    return ("cosched.cli.main", "dashboard", *words)


def watch(
    options: argparse.Namespace, run_dir: Path, clock: Sequence[str]
) -> dict[str, Any]:
    """Returns the figures of a page that is open for a while. clock: words that give a
    module its clock. Raises CoschedError if the server makes too few looks."""
    interval_s = options.interval / options.factor
    words = served(run_dir, f"{interval_s:g}")
    reads = reader if options.no_page else page
    with running(*clock, *words) as (server, url, _), reads() as viewer:
        drawn_s = viewer.open(url)
        again_s = [viewer.open(url) for _ in range(options.repeat)]
        memory = [[server.memory_info().rss / MIB, viewer.heap_mib()]]
        looks, began_s = viewer.looks(), time.monotonic()
        before = cpu_s([server]), viewer.cpu_s()
        for part in range(1, options.parts + 1):
            at_s = began_s + part * options.seconds / options.factor / options.parts
            time.sleep(max(0.0, at_s - time.monotonic()))  # the time that is measured
            memory.append([server.memory_info().rss / MIB, viewer.heap_mib()])
        took_s = (time.monotonic() - began_s) * options.factor
        after = cpu_s([server]), viewer.cpu_s()
        looks = viewer.looks() - looks
    if looks < LOOKS_LEAST * took_s / options.interval - 1:
        raise CoschedError(
            f"{looks} looks in {took_s:.0f} s, every {options.interval:g} s: the machine "
            "is too slow for this; choose a smaller --factor"
        )
    return {
        "first_picture_s": drawn_s,
        "later_pictures_s": again_s,
        "watched_s": took_s,
        "looks": looks,
        "server_cpu": (after[0] - before[0]) / took_s,
        "page_cpu": (after[1] - before[1]) / took_s,
        "memory_mib": memory,
    }


class Page:
    """The page in a browser."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        pid = driver.service.process.pid
        self._processes = psutil.Process(pid).children(recursive=True)

    def open(self, url: str) -> float:
        """Opens the page; returns how long that took."""
        return open_page(self._driver, url)

    def looks(self) -> int:
        """Returns how many looks the page has seen."""
        found: int = self._driver.execute_script("return dashboard.feed.version")
        return found

    def cpu_s(self) -> float:
        """Returns the CPU time of the browser so far."""
        return cpu_s(self._processes)

    def heap_mib(self) -> float:
        """Returns the memory of the page's objects, in MiB."""
        return heap_mib(self._driver)


@contextmanager
def page() -> Iterator[Page]:
    """Yields the page in a browser."""
    with chromium(*SIZE) as driver:
        yield Page(driver)


class Reader:
    """Asks for what the page asks, and draws nothing."""

    def __init__(self) -> None:
        self._url = ""
        self._run, self._version, self._interval_s = "", 0, 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def open(self, url: str) -> float:
        """Asks for all; returns how long that took. Then it asks again and again."""
        began_s = time.monotonic()
        self._url, self._run = url, ""
        self._ask()
        if not self._thread.is_alive():
            self._thread.start()
        return time.monotonic() - began_s

    def _go_on(self) -> None:
        while not self._end.wait(self._interval_s):
            self._ask()

    def _ask(self) -> None:
        asked = f"{self._url}news?run={self._run}&after={self._version}"
        with urllib.request.urlopen(asked) as answer:
            news = json.load(answer)
        self._run, self._version = news["run"], news["version"]
        self._interval_s = news["interval_s"]

    def looks(self) -> int:
        """Returns how many looks it has seen."""
        return self._version

    def cpu_s(self) -> float:
        """Returns 0: there is no browser."""
        return 0.0

    def heap_mib(self) -> float:
        """Returns 0: there is no page."""
        return 0.0

    def close(self) -> None:
        """Asks no more."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()


@contextmanager
def reader() -> Iterator[Reader]:
    """Yields a reader without a browser."""
    found = Reader()
    try:
        yield found
    finally:
        found.close()


def clock_of(factor: float) -> tuple[str, ...]:
    """Returns the words before a module that has a clock of this speed."""
    if factor == 1:
        return ()
    return ("benchmarks.fast_clock", str(factor), str(time.time()))


def measure(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    """Returns the lines and the figures."""
    if options.interval / options.factor < INTERVAL_LEAST_S:
        most = options.interval / INTERVAL_LEAST_S
        raise CoschedError(
            f"--factor: {most:g} at most, with looks every {options.interval:g} s"
        )
    with tempfile.TemporaryDirectory(prefix="cosched-b-") as name:
        run_dir = Path(name) / "run"
        run_dir.mkdir()
        counts = ("--nodes", str(options.nodes), "--jobs", str(options.jobs))
        lasting = ("--slice", str(options.slice), "--lasting", str(options.seconds))
        words = ("tests.tools.played_site", str(run_dir), *counts, *lasting)
        clock = clock_of(options.factor)
        with running(*clock, *words):
            starts = start_up(run_dir, options.repeat)
            found = watch(options, run_dir, clock)
    figures = {"start_s": starts, **found}
    return _lines(options, figures), figures


def _lines(options: argparse.Namespace, found: dict[str, Any]) -> list[str]:
    servers, pages = zip(*found["memory_mib"], strict=True)
    fast = "" if options.factor == 1 else f", {options.factor:g} times as fast"
    later_s = statistics.median(found["later_pictures_s"])
    starts_s = {name: statistics.median(each) for name, each in found["start_s"].items()}
    return [
        f"{options.nodes} nodes, {options.jobs} jobs, slices of {options.slice:g} s",
        f"{found['looks']} looks in {found['watched_s']:.0f} s{fast}; every "
        f"{options.interval:g} s",
        f"address printed after   {starts_s['dashboard']:.3f} s",
        f"version printed after   {starts_s['version']:.3f} s",
        f"first picture after     {found['first_picture_s']:.2f} s, later {later_s:.2f} s",
        f"CPU of the server       {found['server_cpu']:.1%}",
        f"CPU of the browser      {found['page_cpu']:.1%}",
        f"memory of the server    {', '.join(f'{each:.0f}' for each in servers)} MiB",
        f"objects of the page     {', '.join(f'{each:.1f}' for each in pages)} MiB",
    ]


def main() -> None:
    """Measures."""
    bench = Bench("dashboard", __doc__, "--nodes 64 --jobs 1000")
    bench.add_argument("--nodes", type=positive, default=64, help="default 64")
    bench.add_argument("--jobs", type=positive, default=1000, help="default 1000")
    bench.add_argument("--slice", type=above_zero, default=1.0, help="seconds (default 1)")
    bench.add_argument(
        "--interval", type=above_zero, default=2.0, help="seconds (default 2)"
    )
    bench.add_argument(
        "--seconds", type=above_zero, default=60.0, help="page open (default 60)"
    )
    bench.add_argument(
        "--factor", type=above_zero, default=1.0, help="speed of the clock (default 1)"
    )
    bench.add_argument(
        "--parts", type=positive, default=6, help="looks at memory (default 6)"
    )
    bench.add_argument(
        "--no-page", action="store_true", help="ask as a page does, without a browser"
    )
    bench.add_repeat(5, "starts, and pictures")
    bench.run(measure)


if __name__ == "__main__":
    main()
