"""Chooses the nodes of a job among jobs that share nodes.

While a job waits on one of its nodes, it makes no progress on the others. So a job is
placed where it stops as few nodes as possible: on free nodes first, then on the nodes of
jobs that share nodes already, then on those of narrow jobs. A set of nodes is a whole
number whose bits are the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.cluster.queue.nodes import Intervals


def least_stopped(free: int, size: int, others: Sequence[int]) -> int:
    """Returns ``size`` of the free nodes. others: the nodes of each other job."""
    chosen = 0
    while size:
        for node in bits(_cheapest(free, chosen, others))[:size]:
            chosen |= 1 << node
            free &= ~(1 << node)
            size -= 1
    return chosen


def _cheapest(free: int, chosen: int, others: Sequence[int]) -> int:
    """Returns free nodes on which a job stops the fewest nodes of other jobs.

    ``chosen``: nodes that it has already, whose jobs are stopped in any case.
    """
    unused = free
    stopped = [0] * len(others)
    for number, nodes in enumerate(others):
        unused &= ~nodes
        shared = any(nodes & other for other in others if other is not nodes)
        stopped[number] = 0 if nodes & chosen or shared else nodes.bit_count()
    if unused:
        return unused
    costs = {}
    for number, nodes in enumerate(others):
        here = nodes & free
        if here:
            beside = [at for at, other in enumerate(others) if other & here]
            costs[number] = sum(stopped[at] for at in beside)
    return others[min(costs, key=costs.__getitem__)] & free


def bits(nodes: int) -> list[int]:
    """Returns the nodes of a set."""
    found = []
    while nodes:
        low = nodes & -nodes
        found.append(low.bit_length() - 1)
        nodes ^= low
    return found


def to_bits(nodes: Intervals) -> int:
    """Returns a set of intervals as a number."""
    return sum((1 << (last + 1)) - (1 << first) for first, last in nodes)
