"""FT, Fourier transform: a diffusion equation solved in frequency space (report
RNR-94-007, section 2.2).

In space, a rank holds planes of z, and transforms along x and y; in frequency, it holds
rows of y, and transforms along z. Between the two lies a transpose of the whole grid, one
all-to-all of everything, at the start and in each iteration. A power of two of ranks, up
to the number of planes and rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.npb.classes import FT
from benchmarks.npb.random import SEED, leap
from benchmarks.npb.report import Outcome, checks
from cosched.core.errors import CoschedError

if TYPE_CHECKING:
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link

DIFFUSION = 1e-6
SUMMED = np.arange(1, 1025)  # points that a checksum adds up
Grid = NDArray[np.complex128]


def run(link: Link, kernels: Kernels, problem: str) -> Outcome:
    """Class ``problem`` on all of ``link``; CoschedError for a wrong number of ranks."""
    size = FT[problem]
    _, y, z = size.edges
    ranks = link.ranks
    if ranks & (ranks - 1) or ranks > min(y, z):
        raise CoschedError(
            f"ft class {problem}: {ranks} ranks; it needs a power of two up to {min(y, z)}"
        )
    transform = _Transform(link, kernels, size.edges)
    transform.begin()
    link.barrier()
    start = link.now()
    transform.begin()
    sums = [transform.iterate() for _ in size.checksums]
    seconds = link.largest(link.now() - start)
    points = float(np.prod(size.edges))
    log = np.log(points)
    iterations = len(sums)
    return Outcome(
        size=" x ".join(str(edge) for edge in size.edges) + " points",
        iterations=iterations,
        seconds=seconds,
        operations=points
        * (14.8157 + 7.19641 * log + (5.23518 + 7.21113 * log) * iterations),
        checks=checks(
            (f"checksum {number}" for number in range(1, iterations + 1)),
            sums,
            size.checksums,
            1e-12,
        ),
    )


class _Transform:
    def __init__(self, link: Link, kernels: Kernels, edges: tuple[int, int, int]) -> None:
        self.link, self.kernels = link, kernels
        self.edges = x, y, z = edges
        self.planes, self.rows = z // link.ranks, y // link.ranks
        self.space = np.empty((self.planes, y, x), np.complex128)
        self.spectrum = np.empty((z, self.rows, x), np.complex128)
        self.evolved = np.empty_like(self.spectrum)
        # By rank: the part of this rank's planes in that rank's rows.
        self.parcels = np.empty((link.ranks, self.planes, self.rows, x), np.complex128)
        self.factors = np.empty(self.spectrum.shape)

    def begin(self) -> None:
        """Random numbers into frequency space, and how fast each frequency fades."""
        link, kernels = self.link, self.kernels
        x, y, z = self.edges
        first = link.rank * self.rows
        squares = (
            _frequencies(z)[:, None, None] ** 2
            + _frequencies(y)[first : first + self.rows, None] ** 2
            + _frequencies(x) ** 2
        )
        np.exp(-4.0 * DIFFUSION * np.pi**2 * squares, out=self.factors)
        kernels.lib.npb_ft_draw(
            leap(SEED, 2 * x * y * self.planes * link.rank),
            2 * self.space.size,
            kernels.doubles(self.space),
        )
        self._along(self.space, 2, 1)
        self._along(self.space, 1, 1)
        # Row by row of ranks: parcels[r] are its rows of my planes.
        by_rank = self.space.reshape(self.planes, link.ranks, self.rows, x)
        self.parcels[:] = by_rank.transpose(1, 0, 2, 3)
        link.transpose(self.parcels, self.spectrum)
        self._along(self.spectrum, 0, 1)

    def iterate(self) -> complex:
        """One step in time, back in space; the checksum there."""
        link, kernels = self.link, self.kernels
        kernels.lib.npb_ft_evolve(
            self.spectrum.size,
            kernels.doubles(self.factors),
            kernels.doubles(self.spectrum),
            kernels.doubles(self.evolved),
        )
        self._along(self.evolved, 0, -1)
        link.transpose(self.evolved, self.parcels)
        x = self.edges[0]
        by_rank = self.space.reshape(self.planes, link.ranks, self.rows, x)
        by_rank[:] = self.parcels.transpose(1, 0, 2, 3)
        self._along(self.space, 1, -1)
        self._along(self.space, 2, -1)
        return self._checksum()

    def _checksum(self) -> complex:
        x, y, z = self.edges
        plane = 5 * SUMMED % z - self.link.rank * self.planes
        mine = (plane >= 0) & (plane < self.planes)
        found = self.space[plane[mine], (3 * SUMMED % y)[mine], (SUMMED % x)[mine]]
        return complex(self.link.sum(found.sum() / (x * y * z)))

    def _along(self, grid: Grid, axis: int, sign: int) -> None:
        length = grid.shape[axis]
        outer = int(np.prod(grid.shape[:axis]))
        inner = int(np.prod(grid.shape[axis + 1 :]))
        roots = np.exp(sign * 2j * np.pi * np.arange(length // 2) / length)
        doubles = self.kernels.doubles
        self.kernels.lib.npb_ft_transform(
            outer, length, inner, doubles(roots), doubles(grid)
        )


def _frequencies(edge: int) -> NDArray[np.float64]:
    """0, 1, ... and the negative ones from the middle on."""
    places = np.arange(edge)
    return np.where(places < edge // 2, places, places - edge).astype(np.float64)
