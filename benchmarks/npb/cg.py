"""CG, conjugate gradient: the least eigenvalue of a sparse matrix by inverse iteration
(report RNR-94-007, section 2.2).

The ranks form a grid, as many columns as rows or twice as many; each holds a block of the
matrix. A product is summed along the ranks of a row by pairwise exchanges, and its parts
go to the rank across the diagonal, where the next product needs them. A power of two of
ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.npb.classes import CG, ConjugateGradient
from benchmarks.npb.random import SEED, leap
from benchmarks.npb.report import Outcome, checks
from cosched.core.errors import CoschedError

if TYPE_CHECKING:
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link

STEPS = 25  # of conjugate gradient in an iteration
TRANSPOSE_TAG = 1
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MatrixBlock:
    """A rank's block of a matrix of ``order``, and its partners."""

    rows: range  #: rows of the matrix that the block covers
    columns: range  #: columns of the matrix that the block covers
    #: Sums of rows that this rank passes on across the diagonal, from ``rows``' first.
    share: slice
    across: int  #: the rank across the diagonal
    #: Partners of the pairwise sum along the row of ranks, farthest first.
    partners: tuple[int, ...]
    #: Whether a row of ranks is twice as long as a column.
    oblong: bool


def place(rank: int, ranks: int, order: int) -> MatrixBlock:
    """Where ``rank`` of ``ranks`` sits; CoschedError unless that is a power of two."""
    levels = ranks.bit_length() - 1
    if ranks != 1 << levels:
        raise CoschedError(f"cg: {ranks} ranks; it needs a power of two")
    tall, wide = 1 << levels // 2, 1 << (levels + 1) // 2
    if wide > order:
        raise CoschedError(f"cg: {ranks} ranks are too many for {order} rows")
    oblong = wide != tall
    row, column = divmod(rank, wide)
    rows = _part(range(order), row, tall)
    # Halves of what a square grid would have, so that shares fit across the diagonal.
    columns = _part(range(order), column // (1 + oblong), tall)
    share = slice(0, len(rows))
    if oblong:
        columns = _half(columns, column % 2)
        half = _half(rows, column % 2)
        share = slice(half.start - rows.start, half.stop - rows.start)
        across = 2 * (column // 2 * tall + row) + column % 2
    else:
        across = column * tall + row
    spans = [wide >> level for level in range(1, wide.bit_length())]
    partners = tuple(rank ^ span for span in spans)
    return MatrixBlock(rows, columns, share, across, partners, oblong)


def _part(whole: range, index: int, count: int) -> range:
    each, left = divmod(len(whole), count)
    start = index * each + min(index, left)
    return whole[start : start + each + (index < left)]


def _half(whole: range, second: int) -> range:
    middle = (len(whole) + 1) // 2
    return whole[middle:] if second else whole[:middle]


def run(link: Link, kernels: Kernels, problem: str) -> Outcome:
    """Class ``problem`` on all of ``link``; CoschedError for a wrong number of ranks."""
    size = CG[problem]
    solver = _Solver(link, kernels, size)
    solver.iterate(np.ones(solver.width))
    link.barrier()
    start = link.now()
    x, zeta = np.ones(solver.width), 0.0
    for _ in range(size.iterations):
        x, zeta = solver.iterate(x)
    seconds = link.largest(link.now() - start)
    items = size.row_items * (size.row_items + 1)
    return Outcome(
        size=f"{size.order} rows",
        iterations=size.iterations,
        seconds=seconds,
        operations=2.0
        * size.iterations
        * size.order
        * (3 + items + STEPS * (5 + items) + 3),
        checks=checks(("zeta",), (zeta,), (size.zeta,), 1e-10),
    )


class _Solver:
    def __init__(self, link: Link, kernels: Kernels, size: ConjugateGradient) -> None:
        self.link, self.kernels = link, kernels
        self.place = place(link.rank, link.ranks, size.order)
        self.width = len(self.place.columns)
        self.shift = size.shift
        self.starts, self.columns, self.elements = _matrix(kernels, size, self.place)
        rows = len(self.place.rows)
        self.sums, self.theirs = np.empty(rows), np.empty(rows)

    def iterate(self, x: Doubles) -> tuple[Doubles, float]:
        """One inverse iteration from ``x``: the next vector, and zeta."""
        z = self._solve(x)
        xz, zz = self._add_up(self._dot(x, z), self._dot(z, z))
        return z / np.sqrt(zz), float(self.shift + 1.0 / xz)

    def _solve(self, x: Doubles) -> Doubles:
        """25 steps of conjugate gradient towards A z = x."""
        z, r, p = np.zeros_like(x), x.copy(), x.copy()
        q = np.empty_like(x)
        rho = self._add_up(self._dot(r, r))[0]
        for _ in range(STEPS):
            self._multiply(p, q)
            alpha = rho / self._add_up(self._dot(p, q))[0]
            z += alpha * p
            r -= alpha * q
            before, rho = rho, self._add_up(self._dot(r, r))[0]
            p *= rho / before
            p += r
        # The published program measures the residual here, in its timed part.
        self._multiply(z, q)
        q -= x
        self._add_up(self._dot(q, q))
        return z

    def _multiply(self, vector: Doubles, product: Doubles) -> None:
        kernels, link, sums = self.kernels, self.link, self.sums
        kernels.lib.npb_cg_multiply(
            len(sums),
            kernels.ints(self.starts),
            kernels.ints(self.columns),
            kernels.doubles(self.elements),
            kernels.doubles(vector),
            kernels.doubles(sums),
        )
        share = self.place.share
        for level, partner in reversed(list(enumerate(self.place.partners))):
            nearest = level == len(self.place.partners) - 1
            if self.place.oblong and nearest:
                # Only the neighbour wants the other half.
                others = slice(share.stop, None) if share.start == 0 else slice(share.start)
                self._swap(sums[others], self.theirs[share], partner, level)
            else:
                self._swap(sums[share], self.theirs[share], partner, level)
            sums[share] += self.theirs[share]
        if self.place.partners:
            wait = link.start_receive(product, self.place.across, TRANSPOSE_TAG)
            link.send(sums[share], self.place.across, TRANSPOSE_TAG)
            wait.Wait()
        else:
            product[:] = sums

    def _swap(self, mine: Doubles, theirs: Doubles, partner: int, level: int) -> None:
        wait = self.link.start_receive(theirs, partner, level + 1)
        self.link.send(mine, partner, level + 1)
        wait.Wait()

    def _dot(self, a: Doubles, b: Doubles) -> float:
        # Not NumPy's: its BLAS may start threads, on cores that other ranks compute on.
        doubles = self.kernels.doubles
        return float(self.kernels.lib.npb_cg_dot(len(a), doubles(a), doubles(b)))

    def _add_up(self, *parts: float) -> list[float]:
        """Sums over a row of ranks, which together hold a whole vector."""
        mine = np.array(parts)
        theirs = np.empty_like(mine)
        for level, partner in enumerate(self.place.partners):
            self._swap(mine, theirs, partner, level)
            mine += theirs
        return [float(value) for value in mine]


def _matrix(
    kernels: Kernels, size: ConjugateGradient, mine: MatrixBlock
) -> tuple[Any, ...]:
    """Row starts, columns and elements of this rank's block."""
    block = kernels.new(
        "struct npb_cg_block *",
        {
            "order": size.order,
            "row_items": size.row_items,
            "first_row": mine.rows.start,
            "end_row": mine.rows.stop,
            "first_column": mine.columns.start,
            "end_column": mine.columns.stop,
            "shift": size.shift,
        },
    )
    lib, ints, doubles = kernels.lib, kernels.ints, kernels.doubles
    places = size.order * (size.row_items + 1)
    items, values = np.empty(places, np.int32), np.empty(places)
    counts, marks = np.empty(size.order, np.int32), np.zeros(size.order, np.int32)
    # The published program draws one number before it begins.
    seed = leap(SEED, 1)
    lib.npb_cg_draw(block, seed, ints(items), doubles(values), ints(counts), ints(marks))
    bounds = np.zeros(len(mine.rows) + 1, np.int32)
    lib.npb_cg_count(block, ints(items), ints(counts), ints(bounds))
    starts = np.concatenate(([0], np.cumsum(bounds[:-1]))).astype(np.int32)
    columns, elements = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    lib.npb_cg_assemble(
        block,
        ints(items),
        doubles(values),
        ints(counts),
        ints(starts),
        ints(columns),
        doubles(elements),
        doubles(np.zeros(size.order)),
        ints(marks),
    )
    used = starts[-1]
    return starts, columns[:used].copy(), elements[:used].copy()
