"""Measures how workers share the choice of a job's nodes (section 4.2, Fig. 6).

threads   Python's threads match the blocks. One of them runs at a time
cores     emulated: each worker has a core, and takes the next block when it has none. The
          time of each block is measured, one after the other
"""

from __future__ import annotations

import gc
import heapq
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.experiments.startup.matching import Block, Matcher, Request, first_of

#: Small enough that four workers end at about the same time.
BLOCK_NODES = 250
ROUNDS = 15


def choose_s(matcher: Matcher, request: Request, way: str, workers: int) -> float:
    """Returns the seconds until the nodes are chosen, the median of some rounds."""
    blocks = matcher.blocks(request, BLOCK_NODES)
    gc.collect()
    gc.freeze()  # or a collection would visit all nodes within the time of one block
    if way == "cores":
        return statistics.median(_by_cores(blocks, request, workers) for _ in range(ROUNDS))
    with ThreadPoolExecutor(workers) as pool:
        return statistics.median(_by_threads(pool, blocks, request) for _ in range(ROUNDS))


def _by_threads(pool: ThreadPoolExecutor, blocks: list[Block], request: Request) -> float:
    began_s = time.perf_counter()
    assert first_of(pool.map(Block.match, blocks), request.nodes) is not None
    return time.perf_counter() - began_s


def _by_cores(blocks: list[Block], request: Request, workers: int) -> float:
    times_s, matches = [], []
    for block in blocks:
        began_s = time.perf_counter()
        matches.append(block.match())
        times_s.append(time.perf_counter() - began_s)
    began_s = time.perf_counter()
    assert first_of(matches, request.nodes) is not None
    return makespan_s(times_s, workers) + time.perf_counter() - began_s


def makespan_s(times_s: Sequence[float], workers: int) -> float:
    """Returns when the last of some pieces of work ends that workers take in turn."""
    free_at = [0.0] * workers
    for each in times_s:
        heapq.heapreplace(free_at, free_at[0] + each)
    return max(free_at)
