"""Makes docs/figures/report.png: the report of a real run.

Three jobs share two nodes of the lab in aligned slices of half a second. Needs root, two
CPUs, an MPI beside this Python, and Debian's chromium with its driver; takes a minute. The
lab must not be in use.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from selenium import webdriver

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
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--hide-scrollbars",
        f"--window-size={WIDTH},{HEIGHT}",
    ):
        options.add_argument(argument)
    driver = webdriver.Chrome(
        options=options,
        service=webdriver.ChromeService(executable_path=shutil.which("chromedriver")),
    )
    try:
        driver.get(f"{page.as_uri()}#{VIEW_S[0]}-{VIEW_S[1]}")
        driver.set_script_timeout(30)
        driver.execute_async_script(
            "const done = arguments[0], seen = () => document.body.dataset.state ?"
            " requestAnimationFrame(() => requestAnimationFrame(done)) :"
            " requestAnimationFrame(seen); seen();"
        )
        driver.save_screenshot(str(FIGURES / "report.png"))
        print("docs/figures/report.png")
    finally:
        driver.quit()


def main() -> None:
    """Runs the jobs and makes the picture."""
    with (
        in_one_line("report_pictures"),
        tempfile.TemporaryDirectory(prefix="cosched-p-") as folder,
    ):
        photograph(run_jobs(Path(folder)))


if __name__ == "__main__":
    main()
