"""Compares the mean responses of four users if one works in launchers without ranks.

The streams are those of `liar`. The user's jobs never have a rank. When such a job has to
leave the order it is announced again at once, as a new job with the rest of its work.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from benchmarks.experiment import Bench, positive
from benchmarks.sim.liar import LIAR, stream
from benchmarks.sim.one_node import OneNode, StreamJob
from cosched.core.node.knowledge import UNKNOWN, Expectation
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_S
from cosched.tables import table

#: The expectation of the launchers. "The truth" has ranks and declares its length.
WAYS: dict[str, Expectation | None] = {
    "the truth": None,
    "launchers, nothing": UNKNOWN,
    "launchers, one second": Expectation(0, (NS_PER_S,)),
}


def with_launchers(jobs: Sequence[StreamJob], user: int) -> list[StreamJob]:
    """Returns the jobs; those of a user are launchers alone."""
    return [replace(job, bare=job.user == user) for job in jobs]


def mean_responses_s(jobs: Sequence[StreamJob], way: str) -> tuple[float, float]:
    """Returns the mean response time of the user's jobs, and of all others."""
    declared = WAYS[way]
    if declared is not None:
        jobs = [
            replace(job, expectation=declared) if job.bare else job
            for job in with_launchers(jobs, LIAR)
        ]
    pairs = list(zip(jobs, OneNode(jobs, USUAL).responses_ns, strict=True))
    own = [ns for job, ns in pairs if job.user == LIAR]
    others = [ns for job, ns in pairs if job.user != LIAR]
    return fmean(own or [0]) / NS_PER_S, fmean(others) / NS_PER_S


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns a row for each way, and their table."""
    rows = []
    for way in WAYS:
        means = [mean_responses_s(stream(seed), way) for seed in range(options.streams)]
        columns = (f"{fmean(column):.2f}" for column in zip(*means, strict=True))
        rows.append((way, *columns))
    return table(("the user declares", "user, s", "others, s"), rows, "<>>"), rows


def main() -> None:
    bench = Bench("launchers", __doc__, "--streams 30")
    bench.add_argument("--streams", type=positive, default=30, help="how many (30)")
    bench.run(run)


if __name__ == "__main__":
    main()
