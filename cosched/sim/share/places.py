"""Places jobs on the nodes of a machine in rows (Ousterhout, 1982).

Each row is the whole machine, and each node of it has one place. So a node has as many
places as there are rows, and the jobs of one row never share a node. A set of nodes is a
whole number whose bits are the nodes.

While a job waits on one of its nodes, it makes no progress on the others. So a job is
placed where it stops as few nodes as possible: on free nodes first, then on the nodes of
jobs that share nodes already, then on those of narrow jobs.
"""

from __future__ import annotations


class Places:
    """The jobs in all rows, as sets of nodes, and the number of jobs on each node."""

    def __init__(self, machine: int, rows: int) -> None:
        self._all = (1 << machine) - 1
        self._jobs: list[list[int]] = [[] for _ in range(rows)]
        self._count = [0] * machine

    def take(self, row: int, size: int) -> int:
        """Places a job in a row that has room; returns its nodes."""
        free = self._all
        for nodes in self._jobs[row]:
            free &= ~nodes
        others = [
            nodes for at, jobs in enumerate(self._jobs) if at != row for nodes in jobs
        ]
        nodes = self._choose(free, size, others)
        self._jobs[row].append(nodes)
        for node in bits(nodes):
            self._count[node] += 1
        return nodes

    def _choose(self, free: int, size: int, others: list[int]) -> int:
        chosen = 0
        while size:
            chosen_of = _cheapest(free, chosen, others)
            for node in bits(chosen_of)[:size]:
                chosen |= 1 << node
                free &= ~(1 << node)
                size -= 1
        return chosen

    def give(self, row: int, nodes: int) -> None:
        """Removes a job from its nodes."""
        self._jobs[row].remove(nodes)
        for node in bits(nodes):
            self._count[node] -= 1

    def most(self, nodes: int) -> int:
        """Returns the number of jobs on the fullest of these nodes."""
        return max(self._count[node] for node in bits(nodes))


def _cheapest(free: int, chosen: int, others: list[int]) -> int:
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
