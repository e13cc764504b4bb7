"""MG, multigrid: V-cycles for a Poisson equation on a periodic cube (report
RNR-94-007, section 2.2).

The ranks form a box and halve the cube among them, z first. Every operator is followed by
an exchange of faces with the six neighbours, which can be the rank itself. Towards the
coarsest grid there are fewer points than ranks: some then hold none, and get their share
back on the way up. A power of two of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.npb.classes import MG, MultiGrid
from benchmarks.npb.random import MODULUS, MULTIPLIER, SEED, leap
from benchmarks.npb.report import Outcome, checks
from cosched.core.errors import CoschedError

if TYPE_CHECKING:
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link

AXES = (0, 1, 2)  # x, y, z
CHARGES = 10  # points of +1, and as many of -1
Field = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Level:
    """A rank's part of the grid of one level; everything by axis, x first."""

    #: With the ghosts at either end.
    edges: tuple[int, int, int]
    #: The rank that holds the next points up, by axis.
    up: tuple[int, int, int]
    down: tuple[int, int, int]  #: the rank that holds the next points down, by axis
    #: Whether this rank gets points for this level from its neighbours, because it had none
    #: at the level below.
    takes: tuple[bool, bool, bool]
    #: Whether this rank gives points for this level to neighbours that had none below.
    gives: tuple[bool, bool, bool]

    @property
    def empty(self) -> bool:
        return 2 in self.edges


def box(ranks: int) -> tuple[int, int, int]:
    """How many ranks along x, y and z; CoschedError unless ``ranks`` is a power of two."""
    log_ranks = ranks.bit_length() - 1
    if ranks != 1 << log_ranks:
        raise CoschedError(f"mg: {ranks} ranks; it needs a power of two")
    along_x = log_ranks // 3
    along_y = (log_ranks - along_x) // 2
    return 1 << along_x, 1 << along_y, 1 << (log_ranks - along_x - along_y)


def seat(rank: int, sides: tuple[int, int, int]) -> tuple[int, int, int]:
    """Where ``rank`` is in the box."""
    return rank % sides[0], rank // sides[0] % sides[1], rank // (sides[0] * sides[1])


def levels(rank: int, ranks: int, log_edge: int) -> dict[int, Level]:
    """The levels from ``log_edge`` down to 1 as ``rank`` sees them."""
    sides = box(ranks)
    if max(sides) > 1 << log_edge:
        raise CoschedError(f"mg: {ranks} ranks are too many for {1 << log_edge} planes")
    here = seat(rank, sides)
    strides = (1, sides[0], sides[0] * sides[1])
    reach = [1, 1, 1]  # how far away the next rank with points is
    found: dict[int, Level] = {}
    takes = gives = (False, False, False)
    for level in range(log_edge, 0, -1):
        edges, up, down = [0, 0, 0], [0, 0, 0], [0, 0, 0]
        taken, given = [False] * 3, [False] * 3
        for axis in AXES:

            def points(place: int, side: int = sides[axis], level: int = level) -> int:
                return ((place + 1) << level) // side - (place << level) // side

            mine, next_one = points(here[axis]), points(here[axis] + reach[axis])
            edges[axis] = mine + 2
            if mine == 0 or next_one == 0:
                reach[axis] *= 2
            given[axis] = mine == 1 and next_one == 0
            taken[axis] = mine == 0 and next_one == 1
            for ends, step in ((up, reach[axis]), (down, -reach[axis])):
                there = (here[axis] + step) % sides[axis]
                ends[axis] = rank + (there - here[axis]) * strides[axis]
        if level < log_edge:
            above = found[level + 1]
            takes, gives = _three(taken), _three(given)
            found[level + 1] = Level(above.edges, above.up, above.down, takes, gives)
        nothing = (False, False, False)
        found[level] = Level(_three(edges), _three(up), _three(down), nothing, nothing)
    return found


def _three(items: list[Any]) -> tuple[Any, Any, Any]:
    return items[0], items[1], items[2]


def run(link: Link, kernels: Kernels, problem: str) -> Outcome:
    """Class ``problem`` on all of ``link``; CoschedError for a wrong number of ranks."""
    size = MG[problem]
    cycle = _Cycle(link, kernels, size)
    cycle.begin()
    cycle.residual()
    cycle.norm()
    cycle.iterate()
    cycle.begin()
    link.barrier()
    start = link.now()
    cycle.residual()
    cycle.norm()
    for _ in range(size.iterations):
        cycle.iterate()
    norm = cycle.norm()
    seconds = link.largest(link.now() - start)
    edge = 1 << size.log_edge
    return Outcome(
        size=f"{edge} x {edge} x {edge} points",
        iterations=size.iterations,
        seconds=seconds,
        operations=58.0 * size.iterations * edge**3,
        checks=checks(("norm of the residual",), (norm,), (size.norm,), 1e-8),
    )


class _Cycle:
    def __init__(self, link: Link, kernels: Kernels, size: MultiGrid) -> None:
        self.link, self.kernels, self.size = link, kernels, size
        self.top = size.log_edge
        self.levels = levels(link.rank, link.ranks, self.top)
        shapes = {k: level.edges[::-1] for k, level in self.levels.items()}
        self.solution = {k: np.zeros(shape) for k, shape in shapes.items()}
        self.rest = {k: np.zeros(shape) for k, shape in shapes.items()}
        self.right = np.zeros(shapes[self.top])
        self.weights = np.array(size.smoother)
        self.grids = {
            k: kernels.new(
                "struct npb_mg_grid *", dict(zip("xyz", level.edges, strict=True))
            )
            for k, level in self.levels.items()
        }

    def begin(self) -> None:
        """The charges, and a solution of zero."""
        self.solution[self.top][:] = 0.0
        self._charge()

    def residual(self) -> None:
        """Returns the residual of the solution on the finest grid."""
        self._residual(self.top, self.right)

    def iterate(self) -> None:
        """One V-cycle, and the residual after it."""
        lib, doubles, top = self.kernels.lib, self.kernels.doubles, self.top
        for k in range(top, 1, -1):
            lib.npb_mg_restrict(
                self.grids[k],
                doubles(self.rest[k]),
                self.grids[k - 1],
                doubles(self.rest[k - 1]),
            )
            self._exchange(self.rest[k - 1], k - 1)
        self.solution[1][:] = 0.0
        self._smooth(1)
        for k in range(2, top + 1):
            if k < top:
                self.solution[k][:] = 0.0
            lib.npb_mg_prolong(
                self.grids[k - 1],
                doubles(self.solution[k - 1]),
                self.grids[k],
                doubles(self.solution[k]),
            )
            self._spread(self.solution[k], self.levels[k])
            self._residual(k, self.rest[k] if k < top else self.right)
            self._smooth(k)
        self.residual()

    def norm(self) -> float:
        """The root of the mean square of the residual."""
        doubles = self.kernels.doubles
        square = self.kernels.lib.npb_mg_square(
            self.grids[self.top], doubles(self.rest[self.top])
        )
        return float(np.sqrt(self.link.sum(square) / 8.0**self.top))

    def _residual(self, k: int, right: Field) -> None:
        doubles = self.kernels.doubles
        self.kernels.lib.npb_mg_residual(
            self.grids[k],
            doubles(self.solution[k]),
            doubles(right),
            doubles(self.rest[k]),
        )
        self._exchange(self.rest[k], k)

    def _smooth(self, k: int) -> None:
        doubles = self.kernels.doubles
        self.kernels.lib.npb_mg_smooth(
            self.grids[k],
            doubles(self.weights),
            doubles(self.rest[k]),
            doubles(self.solution[k]),
        )
        self._exchange(self.solution[k], k)

    def _charge(self) -> None:
        """+1 where the ten greatest of the random numbers are, -1 where the least."""
        link, edge = self.link, 1 << self.top
        sides, level = box(link.ranks), self.levels[self.top]
        here = seat(link.rank, sides)
        first = [edge * place // side for place, side in zip(here, sides, strict=True)]
        x, y, z = (edge - 2 for edge in level.edges)
        numbers = np.empty((z, y, x))
        for plane in range(z):
            line = edge * (first[2] + plane) + first[1]
            self.kernels.lib.npb_mg_draw(
                leap(SEED, edge * line + first[0]),
                pow(MULTIPLIER, edge, MODULUS),
                y,
                x,
                self.kernels.doubles(numbers[plane]),
            )
        ordered = np.sort(numbers, axis=None)
        least = link.gather(_padded(ordered[:CHARGES], 1.0))
        greatest = link.gather(_padded(ordered[-CHARGES:], 0.0))
        self.right[:] = 0.0
        inside = self.right[1:-1, 1:-1, 1:-1]
        inside[numbers <= np.sort(least, axis=None)[CHARGES - 1]] = -1.0
        inside[numbers >= np.sort(greatest, axis=None)[-CHARGES]] = 1.0
        self._exchange(self.right, self.top)

    def _exchange(self, field: Field, k: int) -> None:
        """Fills the ghosts of a field of level ``k`` from the neighbours' faces."""
        level = self.levels[k]
        if level.empty:
            field[:] = 0.0
            return
        for axis in AXES:
            if self.link.ranks == 1:
                _face(field, axis, 0)[:] = _face(field, axis, -2)
                _face(field, axis, -1)[:] = _face(field, axis, 1)
                continue
            below, above = _face(field, axis, 0), _face(field, axis, -1)
            self._trade(
                (level.down[axis], level.up[axis]),
                (_face(field, axis, 1), _face(field, axis, -2)),
                (below, above),
                axis,
            )

    def _spread(self, field: Field, level: Level) -> None:
        """Hands interpolated points to ranks that had none at the level below."""
        for axis in AXES:
            ends = (level.down[axis], level.up[axis])
            whole = np.moveaxis(field, 2 - axis, 0)
            if level.takes[axis]:
                self._trade(ends, (), (whole[:2], whole[-1]), axis)
            if level.gives[axis]:
                self._trade(ends, (whole[1], whole[-2:]), (), axis)

    def _trade(
        self,
        ends: tuple[int, int],
        give: tuple[Field, ...],
        take: tuple[Field, ...],
        axis: int,
    ) -> None:
        """Sends ``give`` down and up, fills ``take`` from below and above."""
        link = self.link
        # Messages upward have an odd tag; they arrive from below.
        tags = (2 * axis + 1, 2 * axis)
        arriving = [np.empty(part.shape) for part in take]
        waits = [
            link.start_receive(part, end, tag)
            for part, end, tag in zip(arriving, ends, tags, strict=False)
        ]
        for part, end, tag in zip(reversed(give), reversed(ends), tags, strict=False):
            link.send(np.ascontiguousarray(part), end, tag)
        for wait, part, into in zip(waits, arriving, take, strict=True):
            wait.Wait()
            into[...] = part


def _face(field: Field, axis: int, at: int) -> Field:
    """A face without what later axes bring, so that edges and corners come along."""
    if axis == 0:
        return field[1:-1, 1:-1, at]
    if axis == 1:
        return field[1:-1, at, :]
    whole: Field = field[at]
    return whole


def _padded(values: Field, filler: float) -> Field:
    """Brought to as many as there are charges: a small part may hold fewer numbers."""
    return np.concatenate((values, np.full(CHARGES - len(values), filler)))
