"""What SP and BT do alike: alternating directions, swept through a multi-partition.

Before each step, two layers of the state go to the neighbours, one message an axis and
way. Along each axis lines are eliminated cell after cell, each stage handing its last
planes on, and substituted back the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.npb.fluid.cell import GHOSTS, VALUES, Cell, call, rms, share, verdict
from benchmarks.npb.fluid.multipartition import cells, neighbour, sides
from benchmarks.npb.report import Outcome
from cosched.core.errors import CoschedError

if TYPE_CHECKING:
    from benchmarks.npb.classes import Fluid
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link

AXES = (0, 1, 2)
LEAST_POINTS = 3  # a cell's points along an axis
Array = NDArray[np.float64]


class Adi:
    """This rank's cells; CoschedError if they would be too small."""

    def __init__(self, link: Link, kernels: Kernels, size: Fluid) -> None:
        self.link, self.kernels, self.size = link, kernels, size
        self.sides = sides(link.ranks)
        if not fits(size, link.ranks):
            raise CoschedError(
                f"{link.ranks} ranks cut {size.edge} points into cells of less than "
                f"{LEAST_POINTS}; take fewer"
            )
        self.places = cells(link.rank, link.ranks)
        self.cells = [self._cell(place) for place in self.places]
        self.down, self.up = (
            tuple(neighbour(link.rank, link.ranks, axis, step) for axis in AXES)
            for step in (-1, 1)
        )

    def _cell(self, place: tuple[int, int, int]) -> Cell:
        parts = [
            share(self.size.edge, at, side)
            for at, side in zip(place, self.sides, strict=True)
        ]
        first, points = zip(*parts, strict=True)
        return Cell(self.kernels, self.size, first, points)

    def begin(self) -> None:
        """The initial guess in all cells."""
        for cell in self.cells:
            cell.begin()

    def update_rhs(self, scale: float) -> None:
        """The right-hand side of the present state, times ``scale``."""
        self._exchange_state()
        for cell in self.cells:
            cell.derive()
            cell.update_rhs(scale)

    def add(self) -> None:
        for cell in self.cells:
            cell.add()

    def error(self) -> Array:
        """The root mean squares of the error of the present state."""
        sums = np.zeros(VALUES)
        for cell in self.cells:
            cell.add_errors(sums)
        return rms(self.link, sums, self.size.edge)

    def residual(self) -> Array:
        """The root mean squares of the residual of the present state."""
        sums = np.zeros(VALUES)
        self.update_rhs(1.0)
        for cell in self.cells:
            cell.add_squares(sums)
        return rms(self.link, sums, self.size.edge)

    def sweep(
        self,
        name: str,
        axis: int,
        depth: int,
        upper: Sequence[Array],
        *fields: Sequence[Array],
    ) -> None:
        """Solves along ``axis`` by the C functions of the benchmark ``name``. ``upper``: a
        field for each cell, of what elimination leaves above the diagonal; rows reach
        ``depth`` points far. ``fields``: more that elimination reads, for each cell."""
        stages = range(self.sides[axis])
        members = [
            [n for n, place in enumerate(self.places) if place[axis] == stage]
            for stage in stages
        ]
        pending = []
        for stage in stages:
            mine = members[stage]
            if stage > 0:
                self._receive(
                    self._planes(mine, axis, _Where.BELOW, depth, upper),
                    self.down[axis],
                    2 * axis,
                )
            for number in mine:
                cell = self.cells[number]
                more = [cell.derived, *(field[number] for field in fields), upper[number]]
                call(self.kernels, f"npb_{name}_eliminate", cell, axis, *more, cell.rhs)
            if stage < stages[-1]:
                last = self._planes(mine, axis, _Where.LAST, depth, upper)
                pending.append(self._start_send(last, self.up[axis], 2 * axis))
        for stage in reversed(stages):
            mine = members[stage]
            if stage < stages[-1]:
                above = self._planes(mine, axis, _Where.ABOVE, depth)
                self._receive(above, self.up[axis], 2 * axis + 1)
            for number in mine:
                cell, above_it = self.cells[number], upper[number]
                call(self.kernels, f"npb_{name}_substitute", cell, axis, above_it, cell.rhs)
            if stage > 0:
                first = self._planes(mine, axis, _Where.FIRST, depth)
                pending.append(self._start_send(first, self.down[axis], 2 * axis + 1))
        for wait, _ in pending:
            wait.Wait()

    def _planes(
        self,
        numbers: Sequence[int],
        axis: int,
        where: _Where,
        depth: int,
        upper: Sequence[Array] = (),
    ) -> list[Array]:
        """Planes of the right-hand side, and of ``upper``, of some cells, one by one."""
        found = []
        for number in numbers:
            cell = self.cells[number]
            start = where.start(cell.points[axis], depth)
            for field in (cell.rhs, *upper[number : number + 1]):
                found.append(cell.planes(field, axis, start, depth))
        return found

    def _exchange_state(self) -> None:
        """The two outer layers of ``u`` to and from all neighbours."""
        arriving, sent = [], []
        for axis in AXES:
            last = self.sides[axis] - 1
            for way, peer in enumerate((self.down[axis], self.up[axis])):
                # A message upward leaves the top of a cell and enters the next from below.
                leave = (_Where.FIRST, _Where.LAST)[way]
                enter = (_Where.ABOVE, _Where.BELOW)[way]
                source = (self.up[axis], self.down[axis])[way]
                ends = (0, last)
                senders = [n for n, p in enumerate(self.places) if p[axis] != ends[way]]
                takers = [n for n, p in enumerate(self.places) if p[axis] != ends[1 - way]]
                tag = 8 + 2 * axis + way
                if takers:
                    arriving.append(self._start_receive(takers, axis, enter, source, tag))
                if senders:
                    planes = self._state(senders, axis, leave)
                    sent.append(self._start_send(planes, peer, tag))
        for wait, buffer, planes in arriving:
            wait.Wait()
            _unpack(buffer, planes)
        for wait, _ in sent:
            wait.Wait()

    def _state(self, numbers: Sequence[int], axis: int, where: _Where) -> list[Array]:
        found = []
        for number in numbers:
            cell = self.cells[number]
            start = where.start(cell.points[axis], GHOSTS)
            found.append(cell.planes(cell.u, axis, start, GHOSTS))
        return found

    def _start_send(self, planes: list[Array], peer: int, tag: int) -> tuple[Any, Array]:
        """The request, and the buffer that must live until it is done."""
        buffer = np.concatenate([plane.ravel() for plane in planes])
        return self.link.start_send(buffer, peer, tag), buffer

    def _start_receive(
        self, numbers: Sequence[int], axis: int, where: _Where, peer: int, tag: int
    ) -> tuple[Any, Array, list[Array]]:
        planes = self._state(numbers, axis, where)
        buffer = np.empty(sum(plane.size for plane in planes))
        return self.link.start_receive(buffer, peer, tag), buffer, planes

    def _receive(self, planes: list[Array], peer: int, tag: int) -> None:
        buffer = np.empty(sum(plane.size for plane in planes))
        self.link.receive(buffer, peer, tag)
        _unpack(buffer, planes)


def fits(size: Fluid, ranks: int) -> bool:
    """Returns whether the cells of so many ranks have enough points."""
    return size.edge // sides(ranks)[0] >= LEAST_POINTS


def march(
    link: Link,
    adi: Adi,
    step: Callable[[], None],
    operations_a_step: float,
    after: Callable[[int], None] = lambda _: None,
    error: Callable[[], Array] | None = None,
) -> Outcome:
    """A run of ``step``, timed, after one that touches all code and memory.

    ``after`` is called after each timed step, with its number from 1. ``error``: returns
    the error that is checked at the end; None: that of the last state.
    """
    size = adi.size
    step()
    adi.begin()
    link.barrier()
    start = link.now()
    for number in range(1, size.steps + 1):
        step()
        after(number)
    seconds = link.largest(link.now() - start)
    found = (error or adi.error)()
    return Outcome(
        size=f"{size.edge} x {size.edge} x {size.edge} points",
        iterations=size.steps,
        seconds=seconds,
        operations=size.steps * operations_a_step,
        checks=verdict(size, adi.residual(), found),
    )


class _Where(Enum):
    """Planes at an end of a cell, inside it or in its ghosts."""

    BELOW = auto()
    FIRST = auto()
    LAST = auto()
    ABOVE = auto()

    def start(self, points: int, depth: int) -> int:
        """Where ``depth`` of them begin, in a cell of ``points``."""
        starts = {
            _Where.BELOW: -depth,
            _Where.FIRST: 0,
            _Where.LAST: points - depth,
            _Where.ABOVE: points,
        }
        return starts[self]


def _unpack(buffer: Array, planes: list[Array]) -> None:
    start = 0
    for plane in planes:
        plane[...] = buffer[start : start + plane.size].reshape(plane.shape)
        start += plane.size
