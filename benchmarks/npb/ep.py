"""EP, embarrassingly parallel: Gaussian deviates, tallied (report RNR-94-007, section
2.2).

Each rank takes a stretch of the one sequence of numbers. The only communication is three
sums at the end. Any number of ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.npb.classes import EP
from benchmarks.npb.random import leap
from benchmarks.npb.report import Outcome, checks

if TYPE_CHECKING:
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link

SEED = 271828183
ANNULI = 10


def run(link: Link, kernels: Kernels, problem: str) -> Outcome:
    """Class ``problem`` on all of ``link``."""
    size = EP[problem]
    pairs = 1 << size.log_pairs
    first = pairs * link.rank // link.ranks
    mine = pairs * (link.rank + 1) // link.ranks - first
    sums, counts = np.zeros(2), np.zeros(ANNULI)
    link.barrier()
    start = link.now()
    kernels.lib.npb_ep_tally(
        leap(SEED, 2 * first), mine, kernels.doubles(sums), kernels.doubles(counts)
    )
    # Three sums and not one: it is the published program's traffic.
    sum_x, sum_y, counts = link.sum(sums[0]), link.sum(sums[1]), link.sum(counts)
    seconds = link.largest(link.now() - start)
    return Outcome(
        size=f"2^{size.log_pairs} pairs",
        iterations=1,
        seconds=seconds,
        operations=2.0 * pairs,
        checks=checks(
            ("sum of x", "sum of y", "number of deviates"),
            (float(sum_x), float(sum_y), float(counts.sum())),
            (size.sum_x, size.sum_y, size.deviates),
            1e-8,
        ),
    )
