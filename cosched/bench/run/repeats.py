"""Runs every point of a bench, repeat after repeat.

A point that fails gets no further repeat; the others go on. Runs that the store holds are
not run again. A round, which runs each point once, begins only if there is time for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from cosched.bench.results.results import Run
from cosched.bench.results.run_store import RunStore
from cosched.bench.run.arms import Setup
from cosched.bench.run.budget import Budget
from cosched.bench.run.progress import Progress
from cosched.bench.run.session import Session

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Point:
    """One workload with one setup."""

    session: Session  #: the workload and its nodes
    setup: Setup  #: the arm and further changes
    name: str  #: for the progress line

    @property
    def key(self) -> tuple[str, str]:
        """Unique among the points of a bench."""
        return self.session.workload.title, self.setup.name


Runs = dict[tuple[str, str], list[Run]]


def interleave(ways: Sequence[T], repeats: int) -> tuple[tuple[T, int], ...]:
    """Returns the order of all runs, as (way, repeat from 1).

    Each repeat runs every way once and begins with another one. So no way always follows
    the same other, and a slow change of the machine affects all of them.
    """
    return tuple(
        (ways[(repeat + place) % len(ways)], repeat + 1)
        for repeat in range(repeats)
        for place in range(len(ways))
    )


def to_run(points: Sequence[Point], repeats: int, store: RunStore) -> list[str]:
    """Returns the names of the runs that the store does not hold, in order."""
    return [
        point.name
        for point, repeat in interleave(points, repeats)
        if store.find(*point.key, repeat) is None
    ]


def run_all(
    points: Sequence[Point],
    repeats: int,
    store: RunStore,
    progress: Progress,
    budget: Budget,
) -> Runs:
    """Returns every run, by the point's key, in order of the repeats."""
    order = interleave(points, repeats)
    found: Runs = {point.key: [] for point in points}
    failed: set[tuple[str, str]] = set()
    for number, (point, repeat) in enumerate(order, 1):
        done = (number - 1) % len(points)
        if done == 0:
            left_out = budget.round_left_out() if repeat > 1 else ""
            if left_out:
                progress.note(left_out)
                break
            budget.begin_round()
        if point.key in failed:
            continue
        run = store.find(*point.key, repeat)
        if run is None:
            progress.begin(f"run {number}/{len(order)}", point.name, repeat)
            session = point.session.limited_to(budget.share_s(len(points) - done))
            run = session.run_once(point.setup, repeat, progress)
            store.add(*point.key, run)
            progress.end(run)
        found[point.key].append(run)
        if run.failure is not None:
            failed.add(point.key)
    return found
