"""Problem sizes and published verification values of classes S, W, A and B.

``classes.toml`` has the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from cosched.core.decoding import convert
from cosched.documents import read_toml

T = TypeVar("T")
Five = tuple[float, float, float, float, float]
NAMES = ("S", "W", "A", "B")


@dataclass(frozen=True, slots=True)
class EmbarrassinglyParallel:
    """Holds a size of EP."""

    log_pairs: int  #: logarithm to base 2 of the number of pairs
    sum_x: float  #: the published sum of x
    sum_y: float  #: the published sum of y
    deviates: float  #: the published number of deviates


@dataclass(frozen=True, slots=True)
class IntegerSort:
    """Holds a size of IS. Sizes are logarithms to base 2."""

    log_keys: int  #: logarithm of the number of keys
    log_largest: int  #: logarithm of the bound of the keys
    log_buckets: int  #: logarithm of the number of buckets
    test_indices: tuple[int, ...]  #: places of the test keys among all keys
    test_ranks: tuple[int, ...]  #: the table's value for each test key
    #: Test keys with ranks that grow by one an iteration; the other ranks fall.
    rising: frozenset[int]
    rise_from: int  #: the iteration at which a rising rank has the table's value
    fall_from: int  #: the iteration at which a falling rank has the table's value

    def test_rank(self, test: int, iteration: int) -> int:
        """The published rank of test key ``test`` at an iteration, counted from 1."""
        if test in self.rising:
            return self.test_ranks[test] + iteration - self.rise_from
        return self.test_ranks[test] - (iteration - self.fall_from)


@dataclass(frozen=True, slots=True)
class ConjugateGradient:
    """Holds a size of CG."""

    order: int  #: number of rows of the matrix
    row_items: int  #: non-zeros that a generating vector has
    iterations: int  #: number of timed iterations
    shift: float  #: shift of the eigenvalues
    zeta: float  #: the published result


@dataclass(frozen=True, slots=True)
class MultiGrid:
    """Holds a size of MG."""

    log_edge: int  #: logarithm to base 2 of the points along an edge
    iterations: int  #: number of timed iterations
    #: Weights of a point and its neighbours, by distance.
    smoother: tuple[float, float, float]
    norm: float  #: the published norm of the residual


@dataclass(frozen=True, slots=True)
class FourierTransform:
    """Holds a size of FT."""

    edges: tuple[int, int, int]  #: grid points along x, y and z
    checksums: tuple[complex, ...]  #: the published checksum of each iteration


@dataclass(frozen=True, slots=True)
class Fluid:
    """Holds a size of BT, SP or LU on a cube."""

    edge: int  #: points along an edge
    steps: int  #: number of time steps
    dt: float  #: length of a time step
    residual: Five  #: published root mean squares of the five equations' residuals
    error: Five  #: published root mean squares of the five equations' errors
    surface: float = 0.0  #: LU's published surface integral; 0: BT or SP


@dataclass(frozen=True, slots=True)
class DataTraffic:
    """Holds a size of DT."""

    samples: int  #: the mean number of samples that a source makes
    deviation: int  #: the greatest difference of a source's samples from the mean
    sources: int  #: nodes of the graph's widest layer
    checksums: Mapping[str, float]  #: the published checksum of each graph


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
BTIO = {
    size: replace(BT[size], error=convert(table["error"], Five, "BTIO"))
    for size, table in _TABLES["BTIO"].items()
}
DT = _sizes("DT", DataTraffic)
FT = {
    size: FourierTransform(
        tuple(table["edges"]), tuple(complex(*pair) for pair in table["checksums"])
    )
    for size, table in _TABLES["FT"].items()
}
