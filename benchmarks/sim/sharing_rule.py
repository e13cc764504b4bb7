"""Finds when jobs should not share nodes: by the size of a job, as a part of the machine.

A job that shares needs half of each of twice as many nodes. A job that is large for its
machine waits longer for them than it saves. So made logs are simulated, with jobs up to a
part of the machine on halves and larger ones on whole nodes, and compared with EASY without
sharing. The rule is the largest part under which no log has a response that is more than 2%
worse. The domain's default is this rule (``USUAL_PARTS``). It holds for these logs: with
--first-seed others are drawn, and the last column counts those that are worse.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import product

from rich.progress import track

from benchmarks.experiment import Bench, positive
from cosched.core.cluster.queue.halves.placement import USUAL_PARTS
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.symbiotic.datastar import DATASTAR
from cosched.sim.symbiotic.stream import StreamRecipe, stream_of
from cosched.sim.symbiotic.symbiotic_runs import SharingRun, figures_of, simulate
from cosched.tables import table

MACHINES = (32, 128)
LOADS = (0.6, 0.75, 0.9)
#: The largest job that shares, in whole nodes, as a part of the machine.
PARTS: Mapping[str, float] = {"all": 1.0, "1/4": 0.25, "1/8": 0.125, "1/16": 0.0625}
PLACEMENTS = tuple(USUAL_PARTS)
#: Responses that are worse by less than this count as equal.
WORSE_MOST = 0.02


def gains(machine: int, load: float, seed: int, jobs: int) -> dict[tuple[str, str], float]:
    """Returns the mean response without sharing / that with it, by placement and part."""
    log = generate(Recipe(jobs=jobs, machine=machine, load=load, seed=seed))
    recipe = StreamRecipe(seed=seed)
    stream = stream_of(log, DATASTAR, recipe, "job")

    def response_s(placement: str, part: float) -> float:
        run = SharingRun(
            DATASTAR,
            recipe,
            machine,
            "fcfs",
            queue_limit=sys.maxsize,
            share_up_to=part,
        )
        one = simulate(run, stream, machine, placement)
        return figures_of(stream, one, range(len(stream)))["mean_response_s"]

    alone_s = response_s("whole", 1.0)
    return {
        (placement, name): alone_s / response_s(placement, part)
        for placement, (name, part) in product(PLACEMENTS, PARTS.items())
    }


def rule_of(found: Sequence[Mapping[tuple[str, str], float]], placement: str) -> str | None:
    """Returns the largest part under which no log is worse; None if there is none."""
    for part in PARTS:
        if min(each[placement, part] for each in found) >= 1 / (1 + WORSE_MOST):
            return part
    return None


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the table of all logs, and the rules."""
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    cases = list(product(options.machines, LOADS, seeds))
    found = [
        gains(*case, options.count)
        for case in track(cases, description="logs", transient=True)
    ]
    rows = [
        (
            placement,
            part,
            f"{min(values):.2f}",
            f"{sum(values) / len(values):.2f}",
            f"{sum(value < 1 / (1 + WORSE_MOST) for value in values)} of {len(values)}",
        )
        for placement, part in product(PLACEMENTS, PARTS)
        for values in [[each[placement, part] for each in found]]
    ]
    lines = table(
        ("placement", "sharing jobs up to", "worst", "mean", "worse"), rows, "<>>>>"
    )
    rules = {placement: rule_of(found, placement) for placement in PLACEMENTS}
    for placement, part in rules.items():
        words = (
            "switch sharing off" if part is None else f"jobs up to {part} of the machine"
        )
        lines.append(f"{placement}: {words}")
    documents = [
        {
            "machine": machine,
            "load": load,
            "seed": seed,
            "gains": {" ".join(key): value for key, value in each.items()},
        }
        for (machine, load, seed), each in zip(cases, found, strict=True)
    ]
    return lines, {"logs": documents, "rules": rules}


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
    bench.run(run, words)


if __name__ == "__main__":
    main()
