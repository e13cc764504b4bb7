"""BT: alternating directions with 5 x 5 block-tridiagonal systems (report
RNR-94-007, chapter 3), by line sweeps through a multi-partition. Any number of ranks whose
cells are three points wide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.npb.classes import BT
from benchmarks.npb.fluid.adi import AXES, Adi, march
from benchmarks.npb.fluid.cell import VALUES

if TYPE_CHECKING:
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link
    from benchmarks.npb.report import Outcome


def run(link: Link, kernels: Kernels, problem: str) -> Outcome:
    """Class ``problem`` on all of ``link``; CoschedError for too many ranks."""
    adi = Adi(link, kernels, BT[problem])
    return march(link, adi, step_of(adi), operations(BT[problem].edge))


#: Numbers that a step reads and writes at each point. Each pass over the cell reads or
#: writes each of its fields once. The passes: derive, the right-hand side, for each of
#: three axes eliminate and substitute (25 numbers above the diagonal), add.
PASSES = (5 + 6) + (5 + 6 + 5 + 5) + 3 * ((6 + 25 + 10) + (25 + 10)) + (5 + 10)


def step_of(adi: Adi) -> Callable[[], None]:
    """Returns the function that makes a time step."""
    upper = [cell.field(VALUES**2) for cell in adi.cells]

    def step() -> None:
        adi.update_rhs(adi.size.dt)
        for axis in AXES:
            adi.sweep("bt", axis, 1, upper)
        adi.add()

    return step


def operations(edge: int) -> float:
    """Returns the operations of a time step, by NPB's formula."""
    return 3478.8 * edge**3 - 17655.7 * edge**2 + 28023.7 * edge
