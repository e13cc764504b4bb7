"""Many runs, interleaved: every point of a bench, repeat after repeat.

A point that fails gets no further repeat, as the next would hardly do better; the others
go on. What a ledger holds already is not run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cosched.bench.results.ledger import Ledger
from cosched.bench.results.results import Run
from cosched.bench.run.arms import interleave
from cosched.bench.run.cell import Cell
from cosched.bench.run.progress import Progress
from cosched.bench.run.session import Session


@dataclass(frozen=True, slots=True)
class Point:
    """One workload, run in one way. ``name``: as the progress shows it."""

    session: Session
    cell: Cell
    name: str

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from the others of a campaign."""
        return self.session.workload.title, self.cell.name


Runs = dict[tuple[str, str], list[Run]]


def to_run(points: Sequence[Point], repeats: int, ledger: Ledger) -> list[str]:
    """The names of the runs that the ledger does not hold, in order."""
    return [
        point.name
        for point, repeat in interleave(points, repeats)
        if ledger.find(*point.key, repeat) is None
    ]


def run_all(
    points: Sequence[Point], repeats: int, ledger: Ledger, progress: Progress
) -> Runs:
    """Every run, by the point's key, in order of the repeats."""
    order = interleave(points, repeats)
    found: Runs = {point.key: [] for point in points}
    failed: set[tuple[str, str]] = set()
    for number, (point, repeat) in enumerate(order, 1):
        if point.key in failed:
            continue
        run = ledger.find(*point.key, repeat)
        if run is None:
            progress.begin(number, len(order), point.name, repeat)
            run = point.session.run_once(point.cell, repeat, progress)
            ledger.add(*point.key, run)
            progress.end(run)
        found[point.key].append(run)
        if run.failure is not None:
            failed.add(point.key)
    return found
