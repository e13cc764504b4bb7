"""How far a set of simulations is: a bar with the time left, or a line a run."""

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

from cosched.sim.parallel import Heard, Named
from cosched.sim.queue.table import duration

#: A line a run says how long the rest will take if that is this long.
WORTH_SAYING_S = 60.0


@contextmanager
def open_progress(stream: TextIO, runs: int) -> Iterator[Heard]:
    """What to tell ``carry_out_all``, as it suits the stream."""
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

        def heard(done: float, outcome: Named | None) -> None:
            progress.update(
                task, completed=done, description=f"run {min(runs, int(done) + 1)}/{runs}"
            )

        yield heard


def _lines(stream: TextIO, runs: int) -> Heard:
    ended = 0
    began_s = monotonic()

    def heard(done: float, outcome: Named | None) -> None:
        nonlocal ended
        if outcome is not None and runs > 1:
            ended += 1
            left_s = (monotonic() - began_s) * max(0.0, runs - done) / done
            left = f", {duration(left_s)} left" if left_s >= WORTH_SAYING_S else ""
            print(f"{ended}/{runs}  {outcome.name}{left}", file=stream, flush=True)

    return heard
