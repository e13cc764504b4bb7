"""Finds when jobs should not share nodes: by the size of a job, as a part of the machine.

A job that shares needs half of each of twice as many nodes. A job that is large for its
machine waits longer for them than it saves. So made logs are simulated, with jobs up to a
part of the machine on halves and larger ones on whole nodes, and compared with EASY without
sharing. The rule is the largest part under which no log has a response that is more than 2%
worse. The domain's default is this rule (``USUAL_PARTS``).

The response of one log is partly chance. Where jobs come some minutes earlier or later, it
differs by more than 2% without any sharing. So each log is drawn several times with moved
submissions, and its response is the mean. The last columns have the single draws.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter
from random import Random
from statistics import fmean, median

from msgspec.structs import replace as replaced

from benchmarks.experiment import Bench, positive
from benchmarks.progress_lines import steps_of
from cosched.core.cluster.queue.halves.placement import ALL, LEARNED, OF_DOMAINS
from cosched.core.units import NS_PER_S
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.symbiotic.datastar import DATASTAR
from cosched.sim.symbiotic.stream import StreamJob, StreamRecipe, stream_of
from cosched.sim.symbiotic.symbiotic_runs import SharingRun, figures_of, simulate
from cosched.tables import table

MACHINES = (32, 128)
LOADS = (0.6, 0.75, 0.9)
#: The largest job that shares, in whole nodes, as a part of the machine.
PARTS: Mapping[str, float] = {"all": ALL, "1/4": 0.25, "1/8": 0.125, "1/16": 0.0625}
PLACEMENTS = (*OF_DOMAINS, LEARNED)
#: Responses that are worse by less than this count as equal.
WORSE_MOST = 0.02
LEAST_GAIN = 1 / (1 + WORSE_MOST)
#: A draw of a log submits each job earlier or later by this time at most.
MOVED_S = 600


@dataclass(frozen=True, slots=True)
class LogFigures:
    """The result of one log."""

    #: The mean response without sharing / that with it, by placement and part.
    gains: Mapping[tuple[str, str], float]
    #: The same of each draw.
    drawn: Mapping[tuple[str, str], Sequence[float]]
    #: The greatest mean response of a draw without sharing / the least - 1.
    spread: float


def figures(
    machine: int, load: float, seed: int, jobs: int, draws: int, parts: Sequence[str]
) -> LogFigures:
    """Returns the figures of a log. draws: how often its jobs are submitted, the first time
    as in the log."""
    log = generate(Recipe(jobs=jobs, machine=machine, load=load, seed=seed))
    recipe = StreamRecipe(seed=seed)
    stream = stream_of(log, DATASTAR, recipe, "job")
    streams = [stream, *(moved(stream, draw) for draw in range(1, draws))]

    def responses_s(placement: str, part: float) -> list[float]:
        run = SharingRun(
            DATASTAR,
            recipe,
            machine,
            "fcfs",
            queue_limit=sys.maxsize,
            share_up_to=part,
        )
        return [
            figures_of(each, simulate(run, each, machine, placement), range(jobs))[
                "mean_response_s"
            ]
            for each in streams
        ]

    alone_s = responses_s("whole", ALL)
    shared_s = {
        (placement, name): responses_s(placement, PARTS[name])
        for placement, name in product(PLACEMENTS, parts)
    }
    return LogFigures(
        {key: sum(alone_s) / sum(found_s) for key, found_s in shared_s.items()},
        {
            key: [a / b for a, b in zip(alone_s, found_s, strict=True)]
            for key, found_s in shared_s.items()
        },
        max(alone_s) / min(alone_s) - 1.0,
    )


def moved(stream: Sequence[StreamJob], draw: int) -> list[StreamJob]:
    """Returns the jobs of a stream, each submitted earlier or later by ``MOVED_S`` at most.
    draw: another number draws other times."""
    chance = Random(draw)
    jobs = []
    for entry in stream:
        by_ns = chance.randint(-MOVED_S, MOVED_S) * NS_PER_S
        jobs.append((max(0, entry.job.submit_ns + by_ns), entry))
    jobs.sort(key=itemgetter(0))
    return [
        replace(entry, job=replaced(entry.job, number=number, submit_ns=submit_ns))
        for number, (submit_ns, entry) in enumerate(jobs)
    ]


def rule_of(
    found: Sequence[LogFigures], placement: str, parts: Sequence[str]
) -> str | None:
    """Returns the largest part under which no log is worse; None if there is none."""
    for part in parts:
        if min(each.gains[placement, part] for each in found) >= LEAST_GAIN:
            return part
    return None


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the table of all logs, and the rules."""
    parts = [part for part in PARTS if part in options.parts]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    cases = list(product(options.machines, LOADS, seeds))
    found = [
        figures(*case, options.count, options.draws, parts)
        for case in steps_of(cases, "logs")
    ]
    rows = []
    for key in product(PLACEMENTS, parts):
        means = [each.gains[key] for each in found]
        single = [gain for each in found for gain in each.drawn[key]]
        rows.append(
            (
                *key,
                f"{min(means):.2f}",
                f"{fmean(means):.2f}",
                f"{_worse(means)} of {len(means)}",
                f"{min(single):.2f}",
                f"{_worse(single)} of {len(single)}",
            )
        )
    head = ("placement", "sharing jobs up to", "worst", "mean", "worse")
    lines = table((*head, "worst draw", "worse"), rows, "<>>>>>>")
    rules = {placement: rule_of(found, placement, parts) for placement in PLACEMENTS}
    for placement, part in rules.items():
        words = (
            "switch sharing off" if part is None else f"jobs up to {part} of the machine"
        )
        lines.append(f"{placement}: {words}")
    spreads = [each.spread for each in found]
    beyond = sum(spread > WORSE_MOST for spread in spreads)
    lines.append(
        f"without sharing the draws of a log differ by {median(spreads):.1%} (median), "
        f"{max(spreads):.1%} at most, more than {WORSE_MOST:.0%} in {beyond} of "
        f"{len(spreads)} logs"
    )
    documents = [
        {
            "machine": machine,
            "load": load,
            "seed": seed,
            "spread": each.spread,
            "gains": {" ".join(key): value for key, value in each.gains.items()},
            "draws": {" ".join(key): value for key, value in each.drawn.items()},
        }
        for (machine, load, seed), each in zip(cases, found, strict=True)
    ]
    return lines, {"logs": documents, "rules": rules}


def _worse(gains: Sequence[float]) -> int:
    return sum(gain < LEAST_GAIN for gain in gains)


def main(words: Sequence[str] | None = None) -> None:
    bench = Bench("sharing_rule", __doc__, "--seeds 2")
    add = bench.add_argument
    add("--seeds", type=positive, default=2, help="logs of each load (default 2)")
    add("--first-seed", type=positive, default=1, help="of the logs (default 1)")
    add(
        "--machines",
        type=positive,
        nargs="+",
        default=MACHINES,
        help="nodes of the machines (default 32 128)",
    )
    add("--count", type=positive, default=600, help="jobs of a log (default 600)")
    add("--draws", type=positive, default=3, help="of each log's submissions (default 3)")
    add(
        "--parts",
        choices=PARTS,
        nargs="+",
        default=list(PARTS),
        help="largest jobs that share (default: all of these)",
    )
    bench.run(run, words)


if __name__ == "__main__":
    main()
