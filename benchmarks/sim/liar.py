"""Compares the mean responses of four users if one lies about run times or has no ranks.

Streams of jobs with heavy-tailed lengths share one node in virtual time. The other users'
jobs have true expectations. Nothing here depends on the speed of the machine.

A job of launchers never has a rank. When it has to leave the order it is announced again at
once, as a new job with the rest of its work.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

from benchmarks.experiment import Bench, positive
from benchmarks.progress_lines import steps_of
from benchmarks.sim.one_node import OneNode, StreamJob
from cosched.core.node.knowledge import Expectation
from cosched.core.node.settings import USUAL
from cosched.core.units import NS_PER_S
from cosched.tables import table

USERS = 4
JOBS = 60
MEAN_GAP_S = 2.75
LIAR = 0


def declared(job: StreamJob, *lengths_ns: int) -> StreamJob:
    """Returns a job with the lengths that its user declares."""
    return replace(job, expectation=Expectation(job.expectation.kind, lengths_ns))


def launched(job: StreamJob, *lengths_ns: int) -> StreamJob:
    """Returns a job of launchers alone, of an unknown kind, with the declared lengths."""
    return replace(job, bare=True, expectation=Expectation(0, lengths_ns))


Claim = Callable[[StreamJob], StreamJob]
#: How the liar changes a job, by the words for the table.
CLAIMS: dict[str, Claim] = {
    "the truth": lambda job: declared(job, job.length_ns),
    "half of it": lambda job: declared(job, job.length_ns // 2),
    "a tenth": lambda job: declared(job, job.length_ns // 10),
    "one second": lambda job: declared(job, NS_PER_S),
    "nothing": declared,
    "launchers, nothing": launched,
    "launchers, one second": lambda job: launched(job, NS_PER_S),
}


def stream(seed: int) -> list[StreamJob]:
    """Returns jobs of 0.7 to 30 s that arrive at random; each is of a kind of its own."""
    draw = random.Random(seed)
    jobs, submit_s = [], 0.0
    for number in range(JOBS):
        length_ns = round(min(30.0, 0.7 / draw.random() ** (1 / 1.3)) * NS_PER_S)
        submit_s += draw.expovariate(1 / MEAN_GAP_S)
        expected_ns = round(length_ns * draw.uniform(0.95, 1.05))
        expectation = Expectation(number + 1, (expected_ns,))
        user = draw.randrange(USERS)
        jobs.append(StreamJob(round(submit_s * NS_PER_S), length_ns, user, expectation))
    return jobs


def with_claims(jobs: list[StreamJob], claim: Claim) -> list[StreamJob]:
    """Returns the jobs; those of the liar are as claimed."""
    return [claim(job) if job.user == LIAR else job for job in jobs]


def mean_responses_s(jobs: list[StreamJob]) -> tuple[float, float]:
    """Returns the mean response time of the liar's jobs, and of all others."""
    responses_ns = OneNode(jobs, USUAL).responses_ns
    pairs = list(zip(jobs, responses_ns, strict=True))
    own = [ns for job, ns in pairs if job.user == LIAR]
    others = [ns for job, ns in pairs if job.user != LIAR]
    return fmean(own or [0]) / NS_PER_S, fmean(others) / NS_PER_S


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns a row for each claim, and their table."""
    rows = []
    for name, claim in steps_of(CLAIMS.items(), "claims"):
        means = [
            mean_responses_s(with_claims(stream(seed), claim))
            for seed in range(options.streams)
        ]
        columns = (f"{fmean(column):.2f}" for column in zip(*means, strict=True))
        rows.append((name, *columns))
    return table(("the liar declares", "liar, s", "others, s"), rows, "<>>"), rows


def main() -> None:
    bench = Bench("liar", __doc__, "--streams 30")
    bench.add_argument("--streams", type=positive, default=30, help="how many (30)")
    bench.run(run)


if __name__ == "__main__":
    main()
