"""LU: symmetric successive over-relaxation of the Navier-Stokes equations (report
RNR-94-007, chapter 3).

The ranks form a grid over x and y; each holds columns of the whole height. A sweep with
the lower triangle starts in one corner of the cube and runs as a wavefront. A rank solves
a plane when it has the edges of its western and southern neighbours' planes, and then sends
its own edges. The upper triangle runs the other way. Many small messages: two a plane and
neighbour in each iteration. Any number of ranks whose columns are three points wide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.npb.classes import LU, Fluid
from benchmarks.npb.fluid.cell import (
    GHOSTS,
    TOLERANCE,
    VALUES,
    Cell,
    call,
    rms,
    share,
    verdict,
)
from benchmarks.npb.report import Check, Outcome
from cosched.core.errors import CoschedError

if TYPE_CHECKING:
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link

RELAXATION = 1.2
C2 = 0.4
X, Y = 0, 1
Array = NDArray[np.float64]


def columns(ranks: int) -> tuple[int, int]:
    """How many ranks along x and y: as square as can be, wide rather than deep."""
    deep = max(n for n in range(1, int(ranks**0.5) + 1) if ranks % n == 0)
    return ranks // deep, deep


def run(link: Link, kernels: Kernels, problem: str) -> Outcome:
    """Class ``problem`` on all of ``link``; CoschedError for too many ranks."""
    size = LU[problem]
    if size.edge // max(columns(link.ranks)) < 3:
        raise CoschedError(
            f"lu class {problem}: {link.ranks} ranks leave less than 3 points to each"
        )
    solver = _Solver(link, kernels, size)
    solver.prepare()
    solver.iterate()
    solver.cell.begin()
    solver.prepare()
    link.barrier()
    start = link.now()
    for _ in range(size.steps):
        solver.iterate()
    residual = solver.residual()
    seconds = link.largest(link.now() - start)
    edge = size.edge
    surface = solver.surface()
    return Outcome(
        size=f"{edge} x {edge} x {edge} points",
        iterations=size.steps,
        seconds=seconds,
        operations=size.steps
        * (1984.77 * edge**3 - 10923.3 * edge**2 + 27770.9 * edge - 144010.0),
        checks=(
            *verdict(size, residual, solver.error()),
            Check("surface integral", surface, size.surface, TOLERANCE),
        ),
    )


class _Solver:
    def __init__(self, link: Link, kernels: Kernels, size: Fluid) -> None:
        self.link, self.kernels, self.size = link, kernels, size
        wide, deep = columns(link.ranks)
        x, y = link.rank % wide, link.rank // wide
        # By axis: the neighbour down and up; None at the edge of the cube.
        self.down = (link.rank - 1 if x else None, link.rank - wide if y else None)
        self.up = (
            link.rank + 1 if x < wide - 1 else None,
            link.rank + wide if y < deep - 1 else None,
        )
        (x_first, nx), (y_first, ny) = share(size.edge, x, wide), share(size.edge, y, deep)
        self.cell = Cell(kernels, size, (x_first, y_first, 0), (nx, ny, size.edge))
        # The part of a row along each axis without boundary, which is sent.
        self.inner = tuple(
            slice(GHOSTS + (first == 0), GHOSTS + count - (first + count == size.edge))
            for first, count in ((x_first, nx), (y_first, ny))
        )

    def prepare(self) -> None:
        """The residual of the present state, in ``rhs``."""
        self._exchange_state()
        self.cell.derive()
        self.cell.update_rhs(1.0)

    def iterate(self) -> None:
        """One step: both sweeps, and the residual after it."""
        cell, kernels = self.cell, self.kernels
        cell.rhs *= self.size.dt
        correction = cell.rhs
        for z in range(1, self.size.edge - 1):
            self._receive_edges(correction[z + GHOSTS], self.down, upward=True)
            call(kernels, "npb_lu_lower", cell, z, cell.derived, correction)
            self._send_edges(correction[z + GHOSTS], self.up, upward=True)
        for z in range(self.size.edge - 2, 0, -1):
            self._receive_edges(correction[z + GHOSTS], self.up, upward=False)
            call(kernels, "npb_lu_upper", cell, z, cell.derived, correction)
            self._send_edges(correction[z + GHOSTS], self.down, upward=False)
        cell.add(1.0 / (RELAXATION * (2.0 - RELAXATION)))
        self.prepare()

    def residual(self) -> Array:
        sums = np.zeros(VALUES)
        self.cell.add_squares(sums)
        return rms(self.link, sums, self.size.edge)

    def error(self) -> Array:
        sums = np.zeros(VALUES)
        self.cell.add_errors(sums)
        return rms(self.link, sums, self.size.edge)

    def surface(self) -> float:
        """The integral of the pressure over the surface of a box just inside the cube."""
        edge, cell = self.size.edge, self.cell
        inner = slice(GHOSTS, -GHOSTS)
        u = cell.u[inner, inner, inner]
        pressure = C2 * (u[..., 4] - 0.5 * (u[..., 1:4] ** 2).sum(axis=-1) / u[..., 0])
        total = 0.0
        # The published box, counted from 0: its first and last point along each axis.
        ends = ((1, edge - 2), (1, edge - 3), (2, edge - 2))
        places = [
            first + np.arange(count)
            for first, count in zip(cell.first, cell.points, strict=True)
        ]
        spans = [_trapezoid(place, *end) for place, end in zip(places, ends, strict=True)]
        for axis in range(3):
            faces = [
                np.isin(places[a], ends[a]) if a == axis else spans[a] for a in range(3)
            ]
            total += float(np.einsum("zyx,x,y,z->", pressure, *faces, optimize=False))
        return float(self.link.sum(total)) * 0.25 / (edge - 1) ** 2

    def _exchange_state(self) -> None:
        """Two ghost layers of ``u`` from each neighbour."""
        cell, link = self.cell, self.link
        for axis in (X, Y):
            count = cell.points[axis]
            ways = (
                (self.down[axis], 0, -GHOSTS, 2 * axis),
                (self.up[axis], count - GHOSTS, count, 2 * axis + 1),
            )
            waits = []
            for peer, _, ghost, way in ways:
                if peer is not None:
                    into = cell.planes(cell.u, axis, ghost, GHOSTS)
                    buffer = np.empty(into.shape)
                    # A message downward arrives from above.
                    waits.append((link.start_receive(buffer, peer, way ^ 1), buffer, into))
            for peer, edge, _, way in ways:
                if peer is not None:
                    planes = cell.planes(cell.u, axis, edge, GHOSTS)
                    link.send(np.ascontiguousarray(planes), peer, way)
            for wait, buffer, into in waits:
                wait.Wait()
                into[...] = buffer

    def _receive_edges(
        self, plane: Array, peers: tuple[int | None, ...], upward: bool
    ) -> None:
        """The ghosts of one plane that a sweep needs, from the ranks before this one."""
        for axis in (X, Y):
            peer = peers[axis]
            if peer is not None:
                ghost = GHOSTS - 1 if upward else GHOSTS + self.cell.points[axis]
                into = self._row(plane, axis, ghost)
                buffer = np.empty(into.shape)
                self.link.receive(buffer, peer, 4 + 2 * axis + upward)
                into[...] = buffer

    def _send_edges(
        self, plane: Array, peers: tuple[int | None, ...], upward: bool
    ) -> None:
        for axis in (X, Y):
            peer = peers[axis]
            if peer is not None:
                edge = GHOSTS + self.cell.points[axis] - 1 if upward else GHOSTS
                row = np.ascontiguousarray(self._row(plane, axis, edge))
                self.link.send(row, peer, 4 + 2 * axis + upward)

    def _row(self, plane: Array, axis: int, at: int) -> Array:
        """The points of a plane at ``at`` along ``axis``."""
        row: Array = plane[self.inner[Y], at] if axis == X else plane[at, self.inner[X]]
        return row


def _trapezoid(places: NDArray[np.int64], first: int, last: int) -> Array:
    """How many intervals between ``first`` and ``last`` each point belongs to."""
    inside = (places >= first) & (places <= last)
    count: Array = inside * (2.0 - (places == first) - (places == last))
    return count
