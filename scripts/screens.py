"""Makes docs/figures/top.svg and why.svg: ``cosched top`` while three jobs share a lab of
two nodes in slices of 1 s. Needs root, and that no lab is up.

    scripts/dev screens
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.experiment import in_one_line
from cosched.cli.jobs.top import why_text
from cosched.core.errors import CoschedError
from cosched.observe.top.sample import Sample
from cosched.observe.top.sampler import sample
from cosched.observe.top.screen import TopApp, WhyScreen
from scripts.busy_lab import FIGURES, busy_lab

SIZE = (80, 24)
INTERVAL_S = 0.5
SAMPLES = 60
JOBS = ("lu", "sp", "cg")


def wait_for_jobs(run_dir: Path) -> None:
    """Waits until all jobs have registered on both nodes."""
    deadline = time.monotonic() + 60
    while any(len(s["jobs"]) < len(JOBS) for s in sample(run_dir).statuses):
        if time.monotonic() > deadline:
            raise CoschedError("the jobs did not start within a minute")
        time.sleep(0.1)


async def shoot(run_dir: Path) -> None:
    """Takes the pictures after SAMPLES intervals."""
    taken = 0

    def sampler() -> Sample:
        nonlocal taken
        taken += 1
        print(f"\rsample {taken} of {SAMPLES}", end="", file=sys.stderr, flush=True)
        return sample(run_dir)

    app = TopApp(sampler, INTERVAL_S, partial(why_text, run_dir))
    async with app.run_test(size=SIZE) as pilot:
        while taken < SAMPLES:
            await pilot.pause(INTERVAL_S)
        print(file=sys.stderr)
        save(app, "top.svg", "cosched top")
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert isinstance(app.screen, WhyScreen)
        save(app, "why.svg", "cosched top: why")


def save(app: TopApp, name: str, title: str) -> None:
    """Writes the present screen into a file."""
    (FIGURES / name).write_text(app.export_screenshot(title=title))
    print(f"docs/figures/{name}")


def main() -> None:
    """Makes both pictures."""
    if os.geteuid() != 0:
        sys.exit("screens: needs root, for the lab")
    os.environ.pop("NO_COLOR", None)
    # Numbers of the last ten seconds show equal shares only of short slices.
    settings = ("slice=1s", "gmet=50ms")
    with (
        in_one_line("screens"),
        tempfile.TemporaryDirectory(prefix="cosched-s-") as folder,
        busy_lab(Path(folder), settings, JOBS, "long"),
    ):
        run_dir = Path(folder) / "run"
        wait_for_jobs(run_dir)
        asyncio.run(shoot(run_dir))


if __name__ == "__main__":
    main()
