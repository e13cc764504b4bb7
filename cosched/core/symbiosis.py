"""Which jobs may share nodes: symbiotic space-sharing (Weinberg and Snavely, 2006).

Two jobs run side by side, each on half of every node that both use. Whether that helps
depends on what limits them. Users say (section 3.2); a matrix of measured speedups knows
(Table 4). A speedup is that of the primary application while the background one has the
other half, against its run on half as many nodes of its own.

- Both limited by the same resource of a node (memory, io): expected to slow down.
- The primary limited by a resource of a node, the background not by that: symbiotic.
- Else nothing is known: the network is not a node's, and the CPU is not shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import permutations
from statistics import fmean
from typing import TypeAlias

from cosched.core.errors import CoschedError


class Resource(str, Enum):
    """What limits a job."""

    CPU = "cpu"
    MEMORY = "memory"
    IO = "io"
    NETWORK = "network"


class Expectation(str, Enum):
    """What users' labels say of a primary application beside a background one."""

    SLOW = "slow"
    SYMBIOTIC = "symbiotic"
    UNKNOWN = "unknown"


Labels: TypeAlias = "Mapping[str, frozenset[Resource]]"
Pairs: TypeAlias = "tuple[tuple[str, str], ...]"

#: Jobs on the two halves of a node share these.
SHARED = frozenset({Resource.MEMORY, Resource.IO})


@dataclass(frozen=True, slots=True)
class SpeedupMatrix:
    """rows: for each application as the primary, its speedup beside each background."""

    names: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if {len(row) for row in self.rows} | {len(self.rows)} != {len(self.names)}:
            raise CoschedError(
                f"a speedup matrix of {len(self.names)} applications needs as many rows "
                "of as many numbers"
            )

    def speedup(self, primary: str, background: str) -> float:
        """Raises CoschedError for an application that was not measured."""
        for name in (primary, background):
            if name not in self.names:
                raise CoschedError(f"application '{name}' has no row in the speedup matrix")
        return self.rows[self.names.index(primary)][self.names.index(background)]

    def throughput(self, schedule: Pairs) -> float:
        """The mean speedup of all applications of a schedule (section 3.3)."""
        return fmean(
            self.speedup(*order)
            for pair in schedule
            for order in (pair, tuple(reversed(pair)))
        )


#: Table 4: six applications on DataStar's p690 nodes.
DATASTAR = SpeedupMatrix(
    ("HOMME", "WRF", "BTIO", "OOCORE", "MILC", "PARATEC"),
    (
        (1.00, 1.07, 1.02, 1.00, 1.03, 1.07),
        (0.68, 1.00, 1.04, 0.95, 1.00, 1.04),
        (1.13, 1.18, 1.00, 0.90, 1.16, 1.20),
        (1.05, 1.25, 0.70, 1.00, 1.05, 1.42),
        (1.10, 1.18, 1.11, 1.65, 1.00, 1.21),
        (1.35, 1.06, 1.20, 1.29, 1.15, 1.00),
    ),
)


def expected(labels: Labels, primary: str, background: str) -> Expectation:
    """What the users' labels let one expect of the primary."""
    own = labels[primary] & SHARED
    if own & labels[background]:
        return Expectation.SLOW
    return Expectation.SYMBIOTIC if own else Expectation.UNKNOWN


def schedules(names: Sequence[str]) -> Iterator[Pairs]:
    """Every way to run an even number of applications in pairs."""
    if not names:
        yield ()
        return
    first, *others = names
    for place, partner in enumerate(others):
        for rest in schedules([*others[:place], *others[place + 1 :]]):
            yield ((first, partner), *rest)


def user_guided(names: Sequence[str], labels: Labels) -> Iterator[Pairs]:
    """The schedules in which nobody is expected to slow down."""
    for schedule in schedules(names):
        if all(expected(labels, *pair) is not Expectation.SLOW for pair in schedule):
            yield schedule


def outcomes(
    matrix: SpeedupMatrix, labels: Labels
) -> dict[Expectation, dict[tuple[str, str], float]]:
    """The speedup of each (primary, background), by what was expected of it."""
    found: dict[Expectation, dict[tuple[str, str], float]] = {
        expectation: {} for expectation in Expectation
    }
    for pair in permutations(matrix.names, 2):
        found[expected(labels, *pair)][pair] = matrix.speedup(*pair)
    return found
