"""BTIO: BT that writes its solution to files every 5 steps (NASA report NAS-03-002).

At its end it reads all solutions back. It checks the mean of their errors and the last
residual. ``solution_file`` has the three ways to write. The seconds contain the
writes, not the reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.npb.classes import BTIO
from benchmarks.npb.fluid.adi import Adi, Array, march
from benchmarks.npb.fluid.bt import operations, step_of
from benchmarks.npb.fluid.cell import VALUES
from benchmarks.npb.fluid.solution_file import SolutionFile, solution_file

if TYPE_CHECKING:
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link
    from benchmarks.npb.report import Outcome

INTERVAL = 5  # steps between two solutions that are written


def run(link: Link, kernels: Kernels, problem: str, way: str, folder: Path) -> Outcome:
    """Class ``problem`` on all of ``link``, with files in ``folder``; CoschedError for too
    many ranks, or if a file cannot be written or read."""
    size = BTIO[problem]
    adi = Adi(link, kernels, size)
    with solution_file(way, link, adi, folder) as file:

        def after(step: int) -> None:
            if step % INTERVAL == 0:
                file.write(step // INTERVAL - 1)
            if step == size.steps:
                file.reopen()

        def error() -> Array:
            return mean_error(adi, file, size.steps // INTERVAL)

        return march(link, adi, step_of(adi), operations(size.edge), after, error)


def mean_error(adi: Adi, file: SolutionFile, solutions: int) -> Array:
    """Reads the first solutions of a file; returns the mean of their errors. The last one
    is the present state then."""
    total = np.zeros(VALUES)
    for number in range(solutions):
        file.read(number)
        total += adi.error()
    return total / solutions
