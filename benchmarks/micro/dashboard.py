"""Measures `cosched dashboard` beside a played domain: its server and its page.

A process plays the nodes and jobs at real sockets, so the server does all that it does on a
cluster. Needs Debian's chromium and selenium, which scripts/dev browser installs:

    .venv-browser/bin/python -m benchmarks.micro.dashboard --nodes 64 --jobs 1000

CPU time is a fraction of one core. The page's is that of all processes of the browser,
which also draw without a graphics card. The heap of the page is taken after a collection.

An hour in virtual time, of the server alone, without a browser:

    .venv/bin/python -m benchmarks.micro.dashboard --virtual --seconds 3600

Then the server and the played domain have one wall clock, which this program steps by the
time between two looks. The server makes each look of the hour, and a reader asks for the
news after each, as a page does. So no job, turn or look is left out, however fast the
machine is. CPU time is that of the looks, as a fraction of the hour. Jobs come as others
end, so there are as many at the end as at the begin.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.chromium import chromium, open_page
from benchmarks.experiment import Bench, above_zero, positive
from benchmarks.stepped_clock import SteppedClock
from cosched.core.errors import CoschedError

MIB = 1 << 20
SIZE = (1280, 1600)


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


def watch(options: argparse.Namespace, run_dir: Path) -> dict[str, Any]:
    """Returns the figures of a page that is open for a while."""
    words = served(run_dir, f"{options.interval:g}")
    with running(*words) as (server, url, _), chromium(*SIZE) as driver:
        drawn_s = open_page(driver, url)
        again_s = [open_page(driver, url) for _ in range(options.repeat)]
        browser = psutil.Process(driver.service.process.pid).children(recursive=True)
        memory = [[server.memory_info().rss / MIB, heap_mib(driver)]]
        looks, began_s = looks_of(driver), time.monotonic()
        before = cpu_s([server]), cpu_s(browser)
        for _ in range(options.parts):
            time.sleep(options.seconds / options.parts)  # the time that is measured
            memory.append([server.memory_info().rss / MIB, heap_mib(driver)])
        took_s = time.monotonic() - began_s
        after = cpu_s([server]), cpu_s(browser)
        looks = looks_of(driver) - looks
    servers, pages = zip(*memory, strict=True)
    return {
        "first_picture_s": drawn_s,
        "later_pictures_s": again_s,
        "watched_s": took_s,
        "looks": looks,
        "server_cpu": (after[0] - before[0]) / took_s,
        "page_cpu": (after[1] - before[1]) / took_s,
        "server_mib": servers,
        "page_mib": pages,
    }


def looks_of(driver: Any) -> int:
    """Returns how many looks the page has seen."""
    found: int = driver.execute_script("return dashboard.feed.version")
    return found


def step_through(
    options: argparse.Namespace, run_dir: Path, clock: SteppedClock, words: Sequence[str]
) -> dict[str, Any]:
    """Returns the figures of a server that makes each look of a time in virtual time.
    words: give a module the clock."""
    looks = max(1, round(options.seconds / options.interval))
    served = ("benchmarks.micro.stepped_dashboard", str(run_dir), str(options.interval))
    began_s = time.monotonic()
    with stepping(*words, *served) as (server, url, look):
        news: dict[str, Any] = {"run": "", "version": 0}
        look()  # reaches ten minutes back
        news = news_of(url, news)
        memory, kilobytes = [server.memory_info().rss / MIB], 0.0
        before_s = cpu_s([server])
        for number in range(1, looks + 1):
            clock.step(round(options.interval * 1e9))
            look()
            news = news_of(url, news)
            kilobytes += news["kilobytes"]
            if number * options.parts // looks > (number - 1) * options.parts // looks:
                memory.append(server.memory_info().rss / MIB)
        used_s = cpu_s([server]) - before_s
    seconds = looks * options.interval
    return {
        "watched_s": seconds,
        "took_s": time.monotonic() - began_s,
        "looks": looks,
        "server_cpu": used_s / seconds,
        "server_mib": memory,
        "kilobytes_a_look": kilobytes / looks,
        "jobs_now": news["totals"]["running"] + news["totals"]["waiting"],
    }


@contextmanager
def stepping(*words: str) -> Iterator[tuple[psutil.Process, str, Callable[[], None]]]:
    """Runs the stepped server; yields its process, its address, and a function that makes
    it look."""
    with subprocess.Popen(
        [sys.executable, "-m", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        read, written = server.stdout, server.stdin
        assert read is not None
        assert written is not None

        def look() -> None:
            written.write("\n")
            written.flush()
            if not read.readline():
                raise CoschedError("the server has ended")

        yield psutil.Process(server.pid), read.readline().strip(), look
        written.close()


def news_of(url: str, last: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what changed since the last news, and how long the answer was."""
    asked = f"{url}news?run={last['run']}&after={last['version']}"
    with urllib.request.urlopen(asked) as answer:
        text = answer.read()
    return {**json.loads(text), "kilobytes": len(text) / 1000}


def measure(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    """Returns the lines and the figures."""
    with tempfile.TemporaryDirectory(prefix="cosched-b-") as name:
        run_dir = Path(name) / "run"
        run_dir.mkdir()
        counts = ("--nodes", str(options.nodes), "--jobs", str(options.jobs))
        lasting = ("--slice", str(options.slice), "--lasting", str(options.seconds))
        played = ("tests.tools.played_site", str(run_dir), *counts, *lasting)
        head = f"{options.nodes} nodes, {options.jobs} jobs, slices of {options.slice:g} s"
        if options.virtual:
            path = Path(name) / "clock"
            clock = SteppedClock.create(path, time.time_ns())
            words = ("benchmarks.stepped_clock", str(path))
            with running(*words, *played):
                figures = step_through(options, run_dir, clock, words)
            return [head, *_virtual_lines(options, figures)], figures
        with running(*played):
            starts = start_up(run_dir, options.repeat)
            figures = {"start_s": starts, **watch(options, run_dir)}
        return [head, *_lines(options, figures)], figures


def _virtual_lines(options: argparse.Namespace, found: dict[str, Any]) -> list[str]:
    factor = found["watched_s"] / found["took_s"]
    return [
        f"{found['looks']} looks, {found['watched_s']:.0f} s, every "
        f"{options.interval:g} s; in {found['took_s']:.0f} s: {factor:.1f} times as fast",
        f"jobs at the end         {found['jobs_now']}",
        f"CPU of the server       {found['server_cpu']:.1%}",
        _mib("memory of the server", found["server_mib"], 0),
        f"answers                 {found['kilobytes_a_look']:.0f} kB a look",
    ]


def _mib(what: str, found: Sequence[float], digits: int) -> str:
    return f"{what:<24}{', '.join(f'{each:.{digits}f}' for each in found)} MiB"


def _lines(options: argparse.Namespace, found: dict[str, Any]) -> list[str]:
    later_s = statistics.median(found["later_pictures_s"])
    starts_s = {name: statistics.median(each) for name, each in found["start_s"].items()}
    return [
        f"{found['looks']} looks, {found['watched_s']:.0f} s; every {options.interval:g} s",
        f"address printed after   {starts_s['dashboard']:.3f} s",
        f"version printed after   {starts_s['version']:.3f} s",
        f"first picture after     {found['first_picture_s']:.2f} s, later {later_s:.2f} s",
        f"CPU of the server       {found['server_cpu']:.1%}",
        f"CPU of the browser      {found['page_cpu']:.1%}",
        _mib("memory of the server", found["server_mib"], 0),
        _mib("objects of the page", found["page_mib"], 1),
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
        "--parts", type=positive, default=6, help="looks at memory (default 6)"
    )
    bench.add_argument(
        "--virtual", action="store_true", help="the server alone, in virtual time"
    )
    bench.add_repeat(5, "starts, and pictures")
    bench.run(measure)


if __name__ == "__main__":
    main()
