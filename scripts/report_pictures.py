"""Makes docs/figures/report.png and queues.png: reports of a real and of a simulated run.

In report.png three jobs share two nodes of the lab in aligned slices of half a second. In
queues.png three policies run a generated log. Needs root, two CPUs, an MPI beside this
Python, and Debian's chromium with its driver; takes a minute. The lab must not be in use.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.chromium import chromium, open_page
from benchmarks.commands import output_of
from benchmarks.experiment import in_one_line
from scripts.busy_lab import BIN, FIGURES, busy_lab
from scripts.page_pictures import save_picture

JOBS = ("north", "south", "west")
WIDTH = 1180
VIEW_S = (0.0, 9.0)
POLICIES = "fcfs,easy,wfp"


def run_jobs(folder: Path) -> Path:
    """Runs the jobs and returns the report's file."""
    page = folder / "report.html"
    with busy_lab(folder, ("slice=500ms", "gmet=50ms"), JOBS, "demo") as running:
        for job in running:
            job.wait()
        words = ["--title", "three wavefronts", "--out", str(page), str(folder / "run")]
        output_of([str(BIN / "cosched"), "report", *words], "cosched report")
    return page


def run_queues(folder: Path) -> Path:
    """Simulates the policies and returns the report's file."""
    for words in (
        "sim generate log.swf --jobs 3000 --machine 128",
        f"sim queue log.swf --policy {POLICIES} --out queues.json",
        "report --out queues.html queues.json",
    ):
        here = ["env", "-C", str(folder), str(BIN / "cosched")]
        output_of([*here, *words.split()], f"cosched {words}")
    return folder / "queues.html"


def photograph(page: Path, name: str, height: int, part: str = "") -> None:
    """Saves a picture of the page as a browser opens it. part: follows its address."""
    with chromium(WIDTH, height) as driver:
        open_page(driver, f"{page.as_uri()}{part}")
        save_picture(driver, FIGURES / name)


def main() -> None:
    """Makes both pictures."""
    with (
        in_one_line("report_pictures"),
        tempfile.TemporaryDirectory(prefix="cosched-p-") as folder,
    ):
        photograph(run_queues(Path(folder)), "queues.png", 1240)
        part = f"#{VIEW_S[0]}-{VIEW_S[1]}"
        photograph(run_jobs(Path(folder)), "report.png", 1366, part)


if __name__ == "__main__":
    main()
