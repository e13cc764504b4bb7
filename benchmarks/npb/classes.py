"""Problem sizes and published verification values of classes S, W, A and B.

``classes.toml`` has the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cosched.core.decoding import convert
from cosched.documents import read_toml

T = TypeVar("T")
Five = tuple[float, float, float, float, float]
NAMES = ("S", "W", "A", "B")


@dataclass(frozen=True, slots=True)
class EmbarrassinglyParallel:
    """EP. ``log_pairs``: 2 to this many pairs of numbers."""

    log_pairs: int
    sum_x: float
    sum_y: float
    deviates: float


@dataclass(frozen=True, slots=True)
class IntegerSort:
    """IS. Sizes are logarithms to base 2.

    The ranks of the test keys in ``rising`` grow by one an iteration, the others fall:
    from their table value at iteration ``rise_from`` and ``fall_from``.
    """

    log_keys: int
    log_largest: int
    log_buckets: int
    test_indices: tuple[int, ...]
    test_ranks: tuple[int, ...]
    rising: frozenset[int]
    rise_from: int
    fall_from: int

    def test_rank(self, test: int, iteration: int) -> int:
        """The published rank of test key ``test`` at an iteration, counted from 1."""
        if test in self.rising:
            return self.test_ranks[test] + iteration - self.rise_from
        return self.test_ranks[test] - (iteration - self.fall_from)


@dataclass(frozen=True, slots=True)
class ConjugateGradient:
    """CG. ``row_items``: non-zeros that a generating vector has; ``zeta``: the result."""

    order: int
    row_items: int
    iterations: int
    shift: float
    zeta: float


@dataclass(frozen=True, slots=True)
class MultiGrid:
    """MG. ``smoother``: weights of a point and its neighbours by distance."""

    log_edge: int
    iterations: int
    smoother: tuple[float, float, float]
    norm: float


@dataclass(frozen=True, slots=True)
class FourierTransform:
    """FT. ``edges``: grid points along x, y and z; a checksum for each iteration."""

    edges: tuple[int, int, int]
    checksums: tuple[complex, ...]


@dataclass(frozen=True, slots=True)
class Fluid:
    """A cube of ``edge`` points and ``steps`` steps of ``dt``.

    ``residual`` and ``error`` are root mean squares for the five equations; ``surface`` is
    LU's surface integral.
    """

    edge: int
    steps: int
    dt: float
    residual: Five
    error: Five
    surface: float = 0.0


_TABLES = read_toml(Path(__file__).with_suffix(".toml"))


def _sizes(name: str, kind: type[T]) -> dict[str, T]:
    return {size: convert(table, kind, name) for size, table in _TABLES[name].items()}


EP = _sizes("EP", EmbarrassinglyParallel)
IS = _sizes("IS", IntegerSort)
CG = _sizes("CG", ConjugateGradient)
MG = _sizes("MG", MultiGrid)
LU = _sizes("LU", Fluid)
SP = _sizes("SP", Fluid)
BT = _sizes("BT", Fluid)
FT = {
    size: FourierTransform(
        tuple(table["edges"]), tuple(complex(*pair) for pair in table["checksums"])
    )
    for size, table in _TABLES["FT"].items()
}
