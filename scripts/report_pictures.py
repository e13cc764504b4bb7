"""Makes docs/figures/report.png: the report of a real run.

Three jobs share two nodes of the lab in aligned slices of half a second. Needs root, two
CPUs, an MPI beside this Python, and Debian's chromium with its driver; takes a minute. The
lab must not be in use.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.chromium import chromium, open_page
from benchmarks.commands import output_of
from benchmarks.experiment import in_one_line
from scripts.busy_lab import BIN, FIGURES, busy_lab

JOBS = ("north", "south", "west")
WIDTH, HEIGHT = 1180, 1330
VIEW_S = (0.0, 9.0)


def run_jobs(folder: Path) -> Path:
    """Runs the jobs and returns the report's file."""
    page = folder / "report.html"
    with busy_lab(folder, ("slice=500ms", "gmet=50ms"), JOBS, "demo") as running:
        for job in running:
            job.wait()
        words = ["--title", "three wavefronts", "--out", str(page), str(folder / "run")]
        output_of([str(BIN / "cosched"), "report", *words], "cosched report")
    return page


def photograph(page: Path) -> None:
    """Saves a picture of the page as a browser opens it."""
    with chromium(WIDTH, HEIGHT) as driver:
        open_page(driver, f"{page.as_uri()}#{VIEW_S[0]}-{VIEW_S[1]}")
        driver.save_screenshot(str(FIGURES / "report.png"))
    print("docs/figures/report.png")


def main() -> None:
    """Runs the jobs and makes the picture."""
    with (
        in_one_line("report_pictures"),
        tempfile.TemporaryDirectory(prefix="cosched-p-") as folder,
    ):
        photograph(run_jobs(Path(folder)))


if __name__ == "__main__":
    main()
