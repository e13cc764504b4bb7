"""Measures what the starts of jobs cost in two coupled clusters that are idle.

In the simulation a job begins at its submission, if its nodes are free, and the next one
begins as soon as it ends. With these costs, the simulation is of the jobs as they run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.coupled_domains import Domain, Wanted, coupled_domains, coupling_counts
from benchmarks.experiments.pairs.output import first_begin
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

#: Jobs of each kind.
JOBS = 7
RUN_S = 0.5
#: A job begins within this time, if its nodes are free.
WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Costs:
    """Medians for one domain, in seconds.

    lag_s: from the submission of a job to its begin. pair_lag_s: the same of jobs with
    mates, from the later submission. turn_s: how much longer than it runs a job keeps its
    nodes from the next one. sync_s: from when a job is ready to its begin, if its mate is
    submitted at the same time. held_s: for how long each of its nodes counts as held then.
    """

    lag_s: float = 0.0
    pair_lag_s: float = 0.0
    turn_s: float = 0.0
    sync_s: float = 0.0
    held_s: float = 0.0


def measure_costs(
    names: Mapping[str, str],
    nodes: int,
    schemes: Sequence[str],
    settings: Mapping[str, Any],
    folder: Path,
    limit_s: float,
) -> list[Costs]:
    """Starts the two clusters for this, and returns the costs of each."""
    folder.mkdir()
    folder.chmod(0o777)
    with coupled_domains(folder, names, nodes, schemes, settings) as domains:
        lags = [_lag_s(domain, folder, limit_s) for domain in domains]
        turns = [_turn_s(domain, nodes, folder, limit_s) for domain in domains]
        pair_lag_s = _pair_lag_s(domains, folder, limit_s)
        time.sleep(2 * RUN_S)  # the last pair's run time, so that all is counted
    costs = []
    for domain, lag_s, turn_s in zip(domains, lags, turns, strict=True):
        counts = coupling_counts(domain)
        started = max(1, counts["started"])
        sync_s = counts["sync_ns"] / NS_PER_S / started
        held_s = counts["held_node_ns"] / NS_PER_S / started  # of one node each
        costs.append(Costs(lag_s, pair_lag_s, turn_s, sync_s, held_s))
    return costs


def _lag_s(domain: Domain, folder: Path, limit_s: float) -> float:
    found = []
    for number in range(JOBS):
        output = folder / f"{domain.name}.single.{number}"
        found.append(-_submit(domain, output, 1, limit_s))
        found[-1] += _begin_s(output)
        time.sleep(2 * RUN_S)
    return median(found)


def _turn_s(domain: Domain, nodes: int, folder: Path, limit_s: float) -> float:
    """Submits jobs that want all nodes, so that each waits for the one before it."""
    outputs = [folder / f"{domain.name}.wide.{number}" for number in range(JOBS)]
    for output in outputs:
        _submit(domain, output, nodes, limit_s)
    begins = [_begin_s(output) for output in outputs]
    time.sleep(2 * RUN_S)
    return median(later - earlier - RUN_S for earlier, later in pairwise(begins))


def _pair_lag_s(domains: Sequence[Domain], folder: Path, limit_s: float) -> float:
    found = []
    for number in range(JOBS):
        outputs = [folder / f"{domain.name}.pair.{number}" for domain in domains]
        submitted = [
            _submit(domain, output, 1, limit_s, f"solo{number}")
            for domain, output in zip(domains, outputs, strict=True)
        ]
        found.append(max(map(_begin_s, outputs)) - max(submitted))
        time.sleep(2 * RUN_S)
    return median(found)


def _submit(
    domain: Domain, output: Path, nodes: int, limit_s: float, group: str = ""
) -> float:
    """Submits a job; returns the time before that."""
    now_s = time.time()
    words = ("/bin/sh", "-c", f"date +%s.%N; sleep {RUN_S}")
    domain.submit(Wanted(words, nodes, max(limit_s, 4 * RUN_S), output, group))
    return now_s


def _begin_s(output: Path) -> float:
    """Waits until a job has written when it began."""
    end = time.monotonic() + WITHIN_S
    while (began_s := first_begin(output)) is None:
        if time.monotonic() > end:
            raise CoschedError(f"{output.name} has not begun within {WITHIN_S:g} s")
        time.sleep(0.02)
    return began_s
