"""Makes docs/figures/report.png: the report of a real run.

Three jobs share two nodes of the lab in aligned slices of half a second. Needs root, two
CPUs, an MPI beside this Python, and Debian's chromium with its driver; takes a minute. The
lab must not be in use.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from selenium import webdriver

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs/figures"
BIN = Path(sys.executable).parent
JOBS = ("north", "south", "west")
WIDTH, HEIGHT = 1180, 1330
VIEW_S = (0.0, 9.0)


def run_jobs(folder: Path) -> Path:
    """Runs the jobs and returns the report's file."""
    source = ROOT / "benchmarks/programs/wavefront.c"
    app, run_dir, page = folder / "wavefront", folder / "run", folder / "report.html"
    subprocess.run([BIN / "mpicc", "-O2", "-o", app, source, "-lm"], check=True)
    environ = {**os.environ, "COSCHED_RUN_DIR": str(run_dir)}

    def cosched(*words: str | Path) -> None:
        subprocess.run([BIN / "cosched", *words], env=environ, check=True)

    cosched("lab", "up", "--nodes", "2")
    try:
        cosched("config", "set", "slice=500ms", "gmet=50ms")
        start: list[str | Path] = [BIN / "cosched-run", "--hosts", "lab1,lab2", "-n", "2"]
        running = [
            subprocess.Popen([*start, "--job", job, app, "--preset", "demo"], env=environ)
            for job in JOBS
        ]
        for job in running:
            job.wait()
        cosched("report", "--title", "three wavefronts", "--out", page, run_dir)
    finally:
        cosched("lab", "down")
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
    folder = Path(tempfile.mkdtemp(prefix="cosched-p-"))
    try:
        photograph(run_jobs(folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
