"""Finds what wrong labels cost, and whether users gain by them, in simulated streams.

Streams of the prototype (section 2.4 of Weinberg and Snavely) run with right labels, with
users who name the CPU for everything (*liars*), and with single wrong labels. They run once
by the labels alone, and once as a domain does it: a label loses its effect after some wrong
runs, for jobs that wait already, too. The gain is the makespan on whole nodes / that on
halves. The gain of the last half begins when half of the jobs have ended: it shows what is
left of the cost by then.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import fmean

from benchmarks.experiment import Bench, positive
from benchmarks.progress_lines import steps_of
from cosched.core.symbiosis.labels import WRONG_RUNS
from cosched.sim.symbiotic.datastar import NPB
from cosched.sim.symbiotic.stream import StreamJob, StreamRecipe, make_stream
from cosched.sim.symbiotic.symbiotic_runs import Shared, SharingRun, simulate
from cosched.tables import table

NODES = 4
PLACEMENTS = ("split", "labels")
#: The share of liars and of wrong labels, and after how many wrong runs a label has no
#: effect; 0: each label has one.
ARMS: Mapping[str, tuple[float, float, int]] = {
    "right labels": (0.0, 0.0, WRONG_RUNS),
    "liars, each label counts": (0.2, 0.0, 0),
    "liars": (0.2, 0.0, WRONG_RUNS),
    "wrong labels, each counts": (0.0, 0.2, 0),
    "wrong labels": (0.0, 0.2, WRONG_RUNS),
}
HONEST = "right labels"


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of one stream."""

    gain: float  #: makespan on whole nodes / on halves - 1
    later: float  #: the same of the last half of the jobs
    #: The mean response of the users with wrong labels / theirs with right labels; None:
    #: all labels are right.
    liars: float | None
    others: float | None  #: the same of all other users


def figures(seed: int, jobs: int, placement: str, queue: int) -> dict[str, Figures]:
    """Returns the figures of a stream with the labels of each arm. queue: the most jobs
    that wait at a time."""
    found: dict[str, Figures] = {}
    honest: Shared | None = None
    for name, (liars, wrong, wrong_runs) in ARMS.items():
        recipe = StreamRecipe(jobs=jobs, seed=seed, liars=liars, wrong=wrong)
        stream = make_stream(recipe, NPB)
        run = SharingRun(NPB, recipe, NODES, queue_limit=queue, wrong_runs=wrong_runs)
        whole = simulate(run, stream, NODES, "whole")
        one = simulate(run, stream, NODES, placement)
        honest = one if honest is None else honest
        found[name] = Figures(
            max(whole.end_ns) / max(one.end_ns) - 1.0,
            _later_ns(whole) / _later_ns(one) - 1.0,
            *_responses(stream, one, honest),
        )
    return found


def _later_ns(one: Shared) -> int:
    """Returns the time between the ends of half of the jobs and of all."""
    ends = sorted(one.end_ns)
    return ends[-1] - ends[len(ends) // 2]


def _responses(
    stream: Sequence[StreamJob], one: Shared, honest: Shared
) -> tuple[float | None, float | None]:
    """Returns the responses / those with right labels. First those of users with wrong
    labels, then those of the other users."""
    liars = {entry.uid for entry in stream if entry.job.limits != entry.limits}
    if not liars:
        return None, None
    places = range(len(stream))
    own = [place for place in places if stream[place].uid in liars]
    others = [place for place in places if stream[place].uid not in liars]
    return _ratio(one, honest, own), _ratio(one, honest, others) if others else None


def _ratio(one: Shared, honest: Shared, places: Iterable[int]) -> float:
    return sum(one.end_ns[place] - one.submit_ns[place] for place in places) / sum(
        honest.end_ns[place] - honest.submit_ns[place] for place in places
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def rows_of(found: Sequence[Mapping[str, Figures]]) -> list[tuple[str, ...]]:
    """Returns a row for each arm: the means over streams, and what is left of the gain."""
    whole = fmean(each[HONEST].gain for each in found)
    rows: list[tuple[str, ...]] = []
    for name in ARMS:
        arm = [each[name] for each in found]
        gain = fmean(each.gain for each in arm)
        liars, others = (
            _mean(each.liars for each in arm),
            _mean(each.others for each in arm),
        )
        rows.append(
            (
                name,
                f"{gain:.1%}",
                f"{gain / whole:.0%}",
                f"{fmean(each.later for each in arm):.1%}",
                "" if liars is None else f"{liars:.3f}",
                "" if others is None else f"{others:.3f}",
            )
        )
    return rows


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the table of each number of jobs and placement."""
    seeds = range(options.seed, options.seed + options.seeds)
    cases = list(product(options.count, PLACEMENTS))
    lines: list[str] = []
    documents = []
    for jobs, placement in steps_of(cases, "streams"):
        found = [figures(seed, jobs, placement, options.queue) for seed in seeds]
        head = (f"{placement}, {jobs} jobs", "gain", "kept", "last half", "liars", "others")
        lines += [*table(head, rows_of(found), "<>>>>>"), ""]
        streams = [{name: asdict(arm) for name, arm in each.items()} for each in found]
        documents.append({"jobs": jobs, "placement": placement, "streams": streams})
    lines.append("liars, others: mean response / that with right labels")
    return lines, documents


def main(words: Sequence[str] | None = None) -> None:
    bench = Bench("wrong_labels", __doc__, "--count 400 --seeds 5")
    add = bench.add_argument
    add("--seeds", type=positive, default=5, help="streams (default 5)")
    add("--seed", type=int, default=0, help="of the first stream (default 0)")
    add(
        "--count",
        type=positive,
        nargs="+",
        default=[200, 400, 1000],
        help="jobs of a stream (default 200 400 1000)",
    )
    add("--queue", type=positive, default=12, help="the most that wait (default 12)")
    bench.run(run, words)


if __name__ == "__main__":
    main()
