"""Gives jobs aligned blocks of nodes, like the partitions of a Blue Gene.

A machine is a row of units, of 512 nodes on Intrepid. A job gets 1, 2, 4, ... units, as
many as it needs, beginning at a multiple of that number; or the whole machine. So a machine
can have enough free nodes for a job and no free block: nodes are not all alike.

Of several free blocks a job gets the one whose surroundings are most in use (the buddy
rule), so that large blocks stay whole. The block that the first waiting job will get is
avoided, if another is free.

Limits: nodes enter and leave service in whole units.
"""

from __future__ import annotations

from functools import partial

from cosched.core.cluster.queue.nodes import (
    FreeNodes,
    Intervals,
    Pool,
    count,
    free_already,
    not_free,
)
from cosched.core.cluster.queue.places.ledger import Allocation
from cosched.core.errors import CoschedError


class FreeBlocks(Pool):
    """The free nodes of a machine of units. ``nodes`` begin at 0 and have no gap.

    Sets of units are numbers with a bit for each unit. A set of blocks has the bits of the
    blocks' first units.
    """

    __slots__ = ("_aligned", "_free", "_kept", "_unit", "_units")

    def __init__(self, nodes: Intervals, unit: int) -> None:
        total = count(nodes)
        if unit < 1 or total % unit or len(nodes) != 1 or nodes[0][0]:
            raise CoschedError(
                f"a machine of {total} nodes is not made of blocks of {unit}"
            )
        self._unit = unit
        self._units = total // unit
        self._free = (1 << self._units) - 1
        self._kept = 0  # the block of the first waiting job
        # All blocks of 1, 2, 4, ... units; the last of them is the largest block.
        self._aligned = [
            sum(1 << begin for begin in range(0, self._units - width + 1, width))
            for width in (1 << level for level in range(self._units.bit_length()))
        ]

    @property
    def total(self) -> int:
        return self._free.bit_count() * self._unit

    @property
    def intervals(self) -> Intervals:
        return self._nodes(self._free)

    def copy(self) -> FreeBlocks:
        other = FreeBlocks.__new__(FreeBlocks)
        other._unit, other._units = self._unit, self._units
        other._free, other._kept = self._free, 0
        other._aligned = self._aligned
        return other

    def width(self, wanted: int) -> int:
        return self._width(wanted) * self._unit

    def fits(self, wanted: int) -> bool:
        return bool(self._blocks(self._free, self._width(wanted)))

    def fits_beside(self, wanted: int, extra: int) -> bool:
        return bool(self._blocks(self._free & ~self._kept, self._width(wanted)))

    def keep(self, wanted: int) -> None:
        width = self._width(wanted)
        begin = self._find(width)
        self._kept = 0 if begin is None else _mask(begin, width)

    def keep_as(self, other: Pool) -> None:
        assert isinstance(other, FreeBlocks)
        self._kept = other._kept

    def take(self, wanted: int) -> Intervals:
        width = self._width(wanted)
        begin = self._find(width)
        if wanted < 1 or begin is None:
            raise CoschedError(f"{wanted} nodes wanted, and no such block is free")
        units = _mask(begin, width)
        self._free &= ~units
        return self._nodes(units)

    def take_exactly(self, nodes: Intervals) -> None:
        units = self._bits(nodes)
        if units & ~self._free:
            raise not_free(nodes)
        self._free &= ~units

    def give(self, nodes: Intervals) -> None:
        units = self._bits(nodes)
        if units & self._free:
            raise free_already(nodes)
        self._free |= units

    def _bits(self, nodes: Intervals) -> int:
        """Returns a set of nodes as a set of units."""
        bits, unit = 0, self._unit
        for first, last in nodes:
            begin, rest = divmod(first, unit)
            end, more = divmod(last + 1, unit)
            if rest or more:
                raise CoschedError(f"nodes {first}-{last} are no blocks of {unit}")
            bits |= (1 << end) - (1 << begin)
        return bits

    def _nodes(self, units: int) -> Intervals:
        """Returns a set of units as a set of nodes."""
        pairs, unit = list[tuple[int, int]](), self._unit
        while units:
            begin = _lowest(units)
            width = _lowest(~(units >> begin))
            units &= ~_mask(begin, width)
            pairs.append((begin * unit, (begin + width) * unit - 1))
        return tuple(pairs)

    def _width(self, wanted: int) -> int:
        units = -(-wanted // self._unit)
        width = 1 << (units - 1).bit_length()
        return self._units if width > self._units else width

    def _blocks(self, units: int, width: int) -> int:
        """Returns the aligned blocks of this number of units that lie in a set of units."""
        if width == self._units:
            return int(units == _mask(0, width))
        level = 0
        while 1 << level < width:
            units &= units >> (1 << level) & self._aligned[level + 1]
            level += 1
        return units

    def _find(self, width: int) -> int | None:
        """Returns where a free block of this number of units begins; None if there is
        none."""
        free = self._free
        found = self._blocks(free & ~self._kept, width) or self._blocks(free, width)
        if not found or width == self._units:
            return 0 if found else None
        # A free block belongs to larger ones up to one that is not free. The fewer they
        # are, the more of its surroundings is in use.
        level = width.bit_length() - 1
        blocks = self._blocks(free, width)
        inner = 0
        while True:
            wider = 0
            if level + 1 < len(self._aligned):
                wider = blocks & blocks >> (1 << level) & self._aligned[level + 1]
            alone = blocks & ~(wider | wider << (1 << level))
            for step in range(inner):
                alone |= alone << (width << step)
            if alone & found:
                return _lowest(alone & found)
            blocks, level, inner = wider, level + 1, inner + 1


def allocation_of(unit: int | None) -> Allocation:
    """Returns the factory of aligned blocks of this number of nodes or more; None: any
    nodes."""
    return FreeNodes if unit is None else partial(FreeBlocks, unit=unit)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _mask(begin: int, width: int) -> int:
    return ((1 << width) - 1) << begin
