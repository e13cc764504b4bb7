"""Measures how workers share the choice of a job's nodes (section 4.2, Fig. 6).

Each worker matches blocks of nodes and changes nothing. The master joins their results in
the order of the blocks.

threads   Python's threads match the blocks. One of them runs at a time
cores     emulated: each worker has a core, and takes the next block when it has none. The
          time of each block is measured, one after the other
"""

from __future__ import annotations

import gc
import heapq
import statistics
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cosched.core.cluster.queue.places.matching import CountedNode, Matcher, Request

#: Small enough that four workers end at about the same time.
BLOCK_NODES = 250
ROUNDS = 15


@dataclass(frozen=True, slots=True)
class Block:
    """Some capable nodes that a worker matches with a request."""

    _nodes: tuple[CountedNode[str], ...]
    _request: Request

    def match(self) -> tuple[str, ...]:
        """Returns its nodes that can run the job now."""
        needed, exclusive = self._request.on_a_node, self._request.exclusive
        return tuple(
            node.offer.name for node in self._nodes if node.has_room(needed, exclusive)
        )


def blocks_of(matcher: Matcher[str], request: Request, size: int) -> list[Block]:
    """Returns the capable nodes as blocks of at most ``size``; ``first_of`` ends the
    choice."""
    capable = matcher.capable_nodes(request)
    return [Block(capable[at : at + size], request) for at in range(0, len(capable), size)]


def first_of(matches: Iterable[tuple[str, ...]], nodes: int) -> tuple[str, ...] | None:
    """Returns the first nodes of all blocks, in their order; None if there are too few."""
    found: list[str] = []
    for match in matches:
        found += match
        if len(found) >= nodes:
            return tuple(found[:nodes])
    return None


def choose_s(matcher: Matcher[str], request: Request, way: str, workers: int) -> float:
    """Returns the seconds until the nodes are chosen, the median of some rounds."""
    blocks = blocks_of(matcher, request, BLOCK_NODES)
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
