"""Assigns cells to ranks for sweeps along every axis.

Multi-partitioning cuts the grid into cells. At each place along an axis every rank has the
same number of cells, so all ranks work at every stage of a sweep. All neighbours up an axis
of one rank's cells belong to one rank. A square number of ranks
q^2 cuts the cube q times along each axis, as the published programs do. They allow no
other; here, any other number p cuts x and y p times and leaves z whole.
"""

from __future__ import annotations

from math import isqrt

Place = tuple[int, int, int]


def sides(ranks: int) -> Place:
    """How many cells along x, y and z."""
    root = isqrt(ranks)
    return (root, root, root) if root * root == ranks else (ranks, ranks, 1)


def owner(place: Place, ranks: int) -> int:
    """The rank that holds the cell at ``place``; places beyond an end wrap around."""
    x, y, z = place
    side = sides(ranks)[0]
    if side == ranks:
        return (x + y) % side
    return (x - z) % side + side * ((y + z) % side)


def cells(rank: int, ranks: int) -> list[Place]:
    """The places of this rank's cells, in order.

    Both ends of a message that holds one plane of each cell agree on that order: moving
    all cells along an axis does not change it, where it does not wrap around.
    """
    side = sides(ranks)[0]
    if side == ranks:
        return [(x, (rank - x) % side, 0) for x in range(side)]
    x, y = rank % side, rank // side
    return sorted(((x + z) % side, (y - z) % side, z) for z in range(side))


def neighbour(rank: int, ranks: int, axis: int, step: int) -> int:
    """The rank that holds the cells next to this one's; ``step`` is +1 or -1."""
    place = list(cells(rank, ranks)[0])
    place[axis] += step
    return owner((place[0], place[1], place[2]), ranks)
