"""Places jobs on the nodes of a machine in rows (Ousterhout, 1982).

Each row is the whole machine, and each node of it has one place. So a node has as many
places as there are rows, and the jobs of one row never share a node. A set of nodes is a
whole number whose bits are the nodes.
"""

from __future__ import annotations


class Places:
    """The free places of all rows, and the number of jobs on each node."""

    def __init__(self, machine: int, rows: int) -> None:
        self._all = (1 << machine) - 1
        self._taken = [0] * rows
        self._count = [0] * machine

    def take(self, row: int, size: int) -> int:
        """Places a job in a row that has room; returns its nodes.

        It takes the nodes with the fewest jobs. So it shares nodes only if it must.
        """
        free = bits(self._all & ~self._taken[row])
        nodes = 0
        for node in sorted(free, key=self._count.__getitem__)[:size]:
            self._count[node] += 1
            nodes |= 1 << node
        self._taken[row] |= nodes
        return nodes

    def give(self, row: int, nodes: int) -> None:
        """Removes a job from its nodes."""
        self._taken[row] &= ~nodes
        for node in bits(nodes):
            self._count[node] -= 1

    def most(self, nodes: int) -> int:
        """Returns the number of jobs on the fullest of these nodes."""
        return max(self._count[node] for node in bits(nodes))


def bits(nodes: int) -> list[int]:
    """Returns the nodes of a set."""
    found = []
    while nodes:
        low = nodes & -nodes
        found.append(low.bit_length() - 1)
        nodes ^= low
    return found
