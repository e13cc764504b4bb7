"""Makes docs/figures/dashboard.png and dashboard-phone.png: `cosched dashboard` at work.

A domain of two nodes of the lab, three jobs at a time on each, runs eight jobs of one or
two nodes. Needs root, an MPI beside this Python, and Debian's chromium with its driver;
takes two minutes. The lab must not be in use.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.chromium import chromium, open_page
from benchmarks.experiment import in_one_line
from scripts.busy_lab import BIN, FIGURES, lab_commands
from scripts.page_pictures import save_picture

#: Name, nodes and preset of each job.
JOBS = (
    *(("north", 2, "long"), ("south", 2, "long"), ("west", 1, "demo"), ("east", 1, "long")),
    *(("ring", 2, "long"), ("heat", 1, "demo"), ("lu", 2, "long"), ("sp", 2, "long")),
)
#: Long enough for a minute of the timeline.
RUNS_S = 75.0
PICTURES = (("dashboard.png", 1280, 1420, False), ("dashboard-phone.png", 360, 760, True))


@contextmanager
def busy_domain(folder: Path) -> Iterator[Path]:
    """Yields the run directory of a domain whose jobs run; ends all after the block."""
    program, _, cosched = lab_commands(folder)
    cosched("lab", "up", "--nodes", "2")
    try:
        cosched("config", "set", "slice=1s", "gmet=50ms")
        cosched("cluster", "up", "--lab", "--jobs-per-node", "3")
        try:
            for name, nodes, preset in JOBS:
                words = ["submit", "--name", name, "--nodes", str(nodes), "--ppn", "1"]
                output = ["--output", str(folder / "%j.out"), "--time", "5m"]
                cosched(*words, *output, str(program), "--preset", preset)
            yield folder / "run"
        finally:
            cosched("cluster", "down", "--end-jobs")
    finally:
        cosched("lab", "down")


def until_rates(driver: Any) -> None:
    """Waits until the page has the rates of jobs, which need two looks."""
    driver.execute_async_script(
        "const done = arguments[0], rows = () => [...dashboard.feed.daemons.values()];"
        "const seen = () => dashboard.feed.live.size && rows().every((row) =>"
        " row.cpu !== null) ? requestAnimationFrame(done) : setTimeout(seen, 100); seen();"
    )


def photograph(run_dir: Path) -> None:
    """Saves pictures of the page."""
    served = subprocess.Popen(
        [BIN / "cosched", "dashboard", "--no-open", "--run-dir", str(run_dir)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert served.stdout is not None
        url = served.stdout.readline().strip()
        for name, width, height, dark in PICTURES:
            with chromium(width, height, dark=dark) as driver:
                open_page(driver, url)
                until_rates(driver)
                save_picture(driver, FIGURES / name)
    finally:
        served.terminate()
        served.wait()


def main() -> None:
    """Runs the jobs and makes the pictures."""
    with (
        in_one_line("dashboard_pictures"),
        tempfile.TemporaryDirectory(prefix="cosched-p-") as folder,
        busy_domain(Path(folder)) as run_dir,
    ):
        time.sleep(RUNS_S)  # the pictures show this time
        photograph(run_dir)


if __name__ == "__main__":
    main()
