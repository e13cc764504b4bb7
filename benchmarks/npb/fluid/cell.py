"""A box of the grid on which LU, SP and BT solve the Navier-Stokes equations (report
RNR-94-007, chapter 3), and what the three do alike with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.npb.report import Check, checks

if TYPE_CHECKING:
    from benchmarks.npb.classes import Fluid
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link

GHOSTS = 2
VALUES = 5  # density, three momenta, energy
DERIVED = 6  # see npb_fluid_derive
TOLERANCE = 1e-8
Field = NDArray[np.float64]


class Cell:
    """One box: fields indexed [z, y, x, value], with ghosts, and C's view of them.

    ``first`` and ``points`` are by axis, x first.
    """

    def __init__(
        self,
        kernels: Kernels,
        size: Fluid,
        first: tuple[int, int, int],
        points: tuple[int, int, int],
    ) -> None:
        self._lib = kernels.lib
        self._doubles = kernels.doubles
        self.first, self.points = first, points
        self.c = kernels.new(
            "struct npb_fluid_cell *",
            {
                "edge": size.edge,
                "points": list(points),
                "first": list(first),
                "dt": size.dt,
            },
        )
        self.u, self.rhs, self.forcing = self.field(), self.field(), self.field()
        self.derived = self.field(DERIVED)
        # The forcing undoes what the operators make of the exact solution.
        self._lib.npb_fluid_exact(self.c, self._doubles(self.u))
        self.derive()
        self.update_rhs(-1.0)
        self.forcing, self.rhs = self.rhs, self.forcing
        self.begin()

    def field(self, values: int = VALUES) -> Field:
        """A field of zeros."""
        return np.zeros((*(n + 2 * GHOSTS for n in reversed(self.points)), values))

    def begin(self) -> None:
        """The initial guess."""
        self._lib.npb_fluid_begin(self.c, self._doubles(self.u))

    def derive(self) -> None:
        """Velocities and the like from ``u``."""
        self._lib.npb_fluid_derive(
            self.c, self._doubles(self.u), self._doubles(self.derived)
        )

    def update_rhs(self, scale: float) -> None:
        """``rhs`` from ``u``, its ghosts and what is derived, times ``scale``."""
        self._lib.npb_fluid_rhs(
            self.c,
            scale,
            self._doubles(self.u),
            self._doubles(self.derived),
            self._doubles(self.forcing),
            self._doubles(self.rhs),
        )

    def add(self, factor: float = 1.0) -> None:
        """``u`` grows by ``factor`` times ``rhs``."""
        self._lib.npb_fluid_add(
            self.c, factor, self._doubles(self.rhs), self._doubles(self.u)
        )

    def add_squares(self, sums: Field) -> None:
        """Adds the squares of ``rhs``."""
        self._lib.npb_fluid_square(self.c, self._doubles(self.rhs), self._doubles(sums))

    def add_errors(self, sums: Field) -> None:
        """Adds the squares of what ``u`` is off the exact solution."""
        self._lib.npb_fluid_error(self.c, self._doubles(self.u), self._doubles(sums))

    def planes(self, field: Field, axis: int, start: int, count: int) -> Field:
        """``count`` planes of points across ``axis``, without the others' ghosts.

        ``start`` counts from the first point of the cell, ghosts being -2 and -1.
        """
        inner = [slice(GHOSTS, GHOSTS + n) for n in self.points]
        inner[axis] = slice(GHOSTS + start, GHOSTS + start + count)
        return field[inner[2], inner[1], inner[0]]


def share(edge: int, place: int, side: int) -> tuple[int, int]:
    """First point and number of points of ``place`` when ``side`` ranks share ``edge``."""
    each, left = divmod(edge, side)
    return place * each + min(place, left), each + (place < left)


def rms(link: Link, sums: Field, edge: int) -> Field:
    """Root mean squares over all inner points, from this rank's sums of squares."""
    return np.asarray(np.sqrt(link.sum(sums) / float((edge - 2) ** 3)))


def verdict(size: Fluid, residual: Field, error: Field) -> tuple[Check, ...]:
    """The ten values that all three benchmarks publish."""
    return tuple(
        check
        for what, found, expected in (
            ("residual", residual, size.residual),
            ("error", error, size.error),
        )
        for check in checks(
            (f"{what} of equation {number}" for number in range(1, VALUES + 1)),
            (float(value) for value in found),
            expected,
            TOLERANCE,
        )
    )


def call(kernels: Kernels, name: str, cell: Cell, *fields: Any) -> None:
    """A C function of a cell and fields; plain numbers go through."""
    arguments = (
        kernels.doubles(field) if isinstance(field, np.ndarray) else field
        for field in fields
    )
    getattr(kernels.lib, name)(cell.c, *arguments)
