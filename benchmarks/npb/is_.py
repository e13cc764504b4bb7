"""IS, integer sort: ranks keys by buckets (report RNR-94-007, section 2.2).

Each iteration counts keys by bucket and adds the counts up over all ranks. Each rank gets a
run of buckets that holds its share of the keys. Every key is sent to the rank of its bucket
and ranked there. Two keys change between iterations, so that the published ranks
of five test keys move in a known way. Any number of ranks up to that of buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.npb.classes import IS, IntegerSort
from benchmarks.npb.random import SEED, leap
from benchmarks.npb.report import Check, Outcome
from cosched.core.errors import CoschedError

if TYPE_CHECKING:
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link

ITERATIONS = 10
TESTS = 5
Ints = NDArray[np.int32]


def run(link: Link, kernels: Kernels, problem: str) -> Outcome:
    """Class ``problem`` on all of ``link``; CoschedError for too many ranks."""
    size = IS[problem]
    if link.ranks > 1 << size.log_buckets:
        raise CoschedError(
            f"is class {problem}: {link.ranks} ranks; at most {1 << size.log_buckets}"
        )
    sort = _Sort(link, kernels, size)
    sort.iterate(1)
    link.barrier()
    start = link.now()
    right = 0
    for iteration in range(1, ITERATIONS + 1):
        ranked = sort.iterate(iteration)
        right += ranked.tests_right
    seconds = link.largest(link.now() - start)
    misplaced = link.sum(np.int64(sort.misplaced(ranked)))
    right = link.sum(np.int64(right))
    return Outcome(
        size=f"2^{size.log_keys} keys",
        iterations=ITERATIONS,
        seconds=seconds,
        operations=float(ITERATIONS << size.log_keys),
        checks=(
            Check("test keys ranked right", int(right), TESTS * ITERATIONS, 0.0),
            Check("keys out of order", int(misplaced), 0, 0.0),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Ranked:
    """This rank's keys after an iteration, and the rank of each possible value."""

    keys: Ints
    ranks: Ints
    least: int
    tests_right: int


class _Sort:
    def __init__(self, link: Link, kernels: Kernels, size: IntegerSort) -> None:
        self.link, self.kernels, self.size = link, kernels, size
        total = 1 << size.log_keys
        starts = [total * rank // link.ranks for rank in range(link.ranks + 1)]
        self.first, end = starts[link.rank], starts[link.rank + 1]
        self.keys = np.empty(end - self.first, np.int32)
        kernels.lib.npb_is_draw(
            leap(SEED, 4 * self.first),
            len(self.keys),
            1 << size.log_largest,
            kernels.ints(self.keys),
        )
        self.bucketed = np.empty_like(self.keys)
        #: How many keys all ranks before the next should hold, at the least.
        self.goals = np.array(starts[1:-1], np.int64)
        self.shift = size.log_largest - size.log_buckets

    def iterate(self, iteration: int) -> _Ranked:
        link, buckets = self.link, 1 << self.size.log_buckets
        if link.rank == 0:
            self.keys[iteration] = iteration
            self.keys[iteration + ITERATIONS] = (1 << self.size.log_largest) - iteration
        mine = np.zeros(buckets + TESTS, np.int32)
        for test, index in enumerate(self.size.test_indices):
            if 0 <= index - self.first < len(self.keys):
                mine[buckets + test] = self.keys[index - self.first]
        self._by_bucket(mine[:buckets])
        totals = link.sum(mine)
        sizes = totals[:buckets].astype(np.int64)
        ends = self._bucket_ends(sizes)
        keys = self._exchange(mine[:buckets], ends)
        first_bucket, end_bucket = ends[link.rank], ends[link.rank + 1]
        least = int(first_bucket) << self.shift
        ranks = np.empty(int(end_bucket - first_bucket) << self.shift, np.int32)
        if len(ranks):
            self.kernels.lib.npb_is_rank(
                self.kernels.ints(keys),
                len(keys),
                least,
                len(ranks),
                self.kernels.ints(ranks),
            )
        lesser = int(sizes[:first_bucket].sum())
        right = self._tests_right(totals[buckets:], ranks, least, lesser, iteration)
        return _Ranked(keys, ranks, least, right)

    def _by_bucket(self, sizes: Ints) -> None:
        ints, lib = self.kernels.ints, self.kernels.lib
        lib.npb_is_count(ints(self.keys), len(self.keys), self.shift, ints(sizes))
        starts = np.zeros_like(sizes)
        np.cumsum(sizes[:-1], out=starts[1:])
        lib.npb_is_bucket(
            ints(self.keys), len(self.keys), self.shift, ints(starts), ints(self.bucketed)
        )

    def _bucket_ends(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rank r gets the buckets from item r up to item r + 1."""
        # The published rule: buckets go to a rank until it and those before it hold
        # their share.
        cuts = np.searchsorted(np.cumsum(sizes), self.goals) + 1
        return np.concatenate(([0], cuts, [len(sizes)]))

    def _exchange(self, sizes: Ints, ends: NDArray[np.int64]) -> Ints:
        before = np.concatenate(([0], np.cumsum(sizes)))
        parts = np.diff(before[ends]).astype(np.int32)
        theirs = np.empty_like(parts)
        self.link.transpose(parts, theirs)
        keys = np.empty(int(theirs.sum()), np.int32)
        self.link.redistribute(self.bucketed, parts, keys, theirs)
        return keys

    def _tests_right(
        self, keys: Ints, ranks: Ints, least: int, lesser: int, iteration: int
    ) -> int:
        right = 0
        for test, key in enumerate(keys.tolist()):
            if 0 <= key - least < len(ranks):
                below = int(ranks[key - least - 1]) if key > least else 0
                right += below + lesser == self.size.test_rank(test, iteration)
        return right

    def misplaced(self, ranked: _Ranked) -> int:
        """Keys of this rank that follow a greater one once all are sorted."""
        link = self.link
        count = len(ranked.keys)
        ordered = np.empty_like(ranked.keys)
        if count:
            self.kernels.lib.npb_is_sort(
                self.kernels.ints(ranked.keys),
                count,
                ranked.least,
                self.kernels.ints(ranked.ranks.copy()),
                self.kernels.ints(ordered),
            )
        before = np.array([-1], np.int32)
        last = link.rank == link.ranks - 1
        waits = [link.start_receive(before, link.rank - 1)] if link.rank > 0 else []
        if count and not last:
            link.send(ordered[-1:].copy(), link.rank + 1)
        for wait in waits:
            wait.Wait()
        # A rank without keys passes on the value that it received.
        if not count and not last:
            link.send(before, link.rank + 1)
        wrong = int(np.count_nonzero(np.diff(ordered) < 0))
        return wrong + int(count > 0 and ordered[0] < before[0])
