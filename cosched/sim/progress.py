"""Shows the progress of a set of simulations: a bar with the time left, or lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from cosched.sim.cells import duration
from cosched.sim.parallel import Outcome, Report

#: A line shows the time left if it is at least this long.
LEAST_LEFT_S = 60.0


@contextmanager
def open_progress(stream: TextIO, runs: int) -> Iterator[Report]:
    """Yields the report for ``carry_out_all``: a bar on a terminal, otherwise lines."""
    if not stream.isatty():
        yield _lines(stream, runs)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=stream), transient=True) as progress:
        task = progress.add_task("", total=runs)

        def report(done: float, outcome: Outcome | None) -> None:
            progress.update(
                task, completed=done, description=f"run {min(runs, int(done) + 1)}/{runs}"
            )

        yield report


def _lines(stream: TextIO, runs: int) -> Report:
    ended = 0
    began_s = monotonic()

    def report(done: float, outcome: Outcome | None) -> None:
        nonlocal ended
        if outcome is not None and runs > 1:
            ended += 1
            left_s = (monotonic() - began_s) * max(0.0, runs - done) / done
            left = f", {duration(left_s)} left" if left_s >= LEAST_LEFT_S else ""
            print(f"{ended}/{runs}  {outcome.run.name}{left}", file=stream, flush=True)

    return report
