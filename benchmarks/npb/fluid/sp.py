"""SP: alternating directions with scalar pentadiagonal systems (report
RNR-94-007, chapter 3), by line sweeps through a multi-partition. Any number of ranks whose
cells are three points wide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.npb.classes import SP
from benchmarks.npb.fluid.adi import AXES, Adi, march
from benchmarks.npb.fluid.cell import call

if TYPE_CHECKING:
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link
    from benchmarks.npb.report import Outcome

ABOVE_DIAGONAL = 6  # two elements for each of three eigenvalues


def run(link: Link, kernels: Kernels, problem: str) -> Outcome:
    """Class ``problem`` on all of ``link``; CoschedError for too many ranks."""
    size = SP[problem]
    adi = Adi(link, kernels, size)
    upper = [cell.field(ABOVE_DIAGONAL) for cell in adi.cells]
    sounds = [cell.field(1) for cell in adi.cells]

    def step() -> None:
        adi.update_rhs(size.dt)
        for cell, sound in zip(adi.cells, sounds, strict=True):
            call(kernels, "npb_sp_sound", cell, cell.derived, sound)
            call(kernels, "npb_sp_enter", cell, cell.derived, sound, cell.rhs)
        for axis in AXES:
            sweep(axis)
        adi.add()

    def sweep(axis: int) -> None:
        adi.sweep("sp", axis, 2, upper, sounds)
        for cell, sound in zip(adi.cells, sounds, strict=True):
            call(
                kernels,
                "npb_sp_leave",
                cell,
                axis,
                cell.u,
                cell.derived,
                sound,
                cell.rhs,
            )

    edge = size.edge
    return march(
        link,
        adi,
        step,
        881.174 * edge**3 - 4683.91 * edge**2 + 11484.5 * edge - 19272.4,
    )
