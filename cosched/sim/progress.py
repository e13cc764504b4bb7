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
#: Without the end of a run, the first line comes after this long, the next ones after this.
FIRST_LINE_S = 1.0
NEXT_LINE_S = 10.0
#: Less work done than this part of a run shows no time left.
LEAST_DONE = 0.1


@contextmanager
def open_progress(stream: TextIO, runs: int, at_a_time: int = 1) -> Iterator[Report]:
    """Yields the report for ``carry_out_all``: a bar on a terminal, otherwise lines.
    at_a_time: as there."""
    if not stream.isatty():
        yield _lines(stream, runs, at_a_time)
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


def _lines(stream: TextIO, runs: int, at_a_time: int) -> Report:
    ended = 0
    began_s = monotonic()
    next_s = began_s + FIRST_LINE_S

    def report(done: float, outcome: Outcome | None) -> None:
        nonlocal ended, next_s
        now_s = monotonic()
        if outcome is not None:
            ended += 1
        # The end of the only run needs no line: its results follow.
        if now_s < next_s if outcome is None else runs == 1:
            return
        what = f"{done / runs:.0%} done" if outcome is None else outcome.run.name
        next_s = now_s + NEXT_LINE_S
        busy = min(runs, at_a_time), min(runs - ended, at_a_time)
        left = _time_left(now_s - began_s, done, runs, *busy)
        print(f"{ended}/{runs}  {what}{left}", file=stream, flush=True)

    return report


def _time_left(took_s: float, done: float, runs: int, before: int, now: int) -> str:
    """Returns the words for the time left, or nothing if that is short or unknown.

    before, now: how many runs were under way at a time so far, and are now.
    """
    if done < LEAST_DONE or not now:
        return ""
    left_s = took_s * max(0.0, runs - done) / done * before / now
    return f", about {duration(left_s)} left" if left_s >= LEAST_LEFT_S else ""
