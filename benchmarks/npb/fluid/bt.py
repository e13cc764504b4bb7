"""BT: alternating directions with 5 x 5 block-tridiagonal systems (report
RNR-94-007, chapter 3), by line sweeps through a multi-partition. Any number of ranks whose
cells are three points wide.
"""

from __future__ import annotations

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
    size = BT[problem]
    adi = Adi(link, kernels, size)
    upper = [cell.field(VALUES**2) for cell in adi.cells]

    def step() -> None:
        adi.update_rhs(size.dt)
        for axis in AXES:
            adi.sweep("bt", axis, 1, upper)
        adi.add()

    edge = size.edge
    return march(
        link,
        adi,
        step,
        3478.8 * edge**3 - 17655.7 * edge**2 + 28023.7 * edge,
    )
