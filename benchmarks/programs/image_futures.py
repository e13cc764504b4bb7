"""Computes the image of ``published/mandelbrot.py`` by ``mpi4py.futures``: a task a line.

    mpiexec -n 3 python -m mpi4py.futures image_futures.py

Rank 0 gives the lines to the other ranks. Their number is fixed: an executor gets no worker
after its start, and gives none back before its end.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
from mpi4py.futures import MPIPoolExecutor

from benchmarks.programs.image import digest, options_of

LEFT, RIGHT, LOW, HIGH, ITERATIONS = -2.0, 1.0, -1.0, 1.0, 127


def pixel(x: float, y: float, pause_s: float) -> int:
    """Returns the iterations of a pixel, as the published program computes them."""
    if pause_s:
        time.sleep(pause_s)
    c = x + y * 1j
    z = 0 + 0j
    iterations = 0
    while abs(z) < 2 and iterations < ITERATIONS:
        z = z**2 + c
        iterations += 1
    return iterations


def line(width: int, height: int, pause_s: float, number: int) -> Any:
    """Returns a line of the image."""
    dx, dy = (RIGHT - LEFT) / width, (HIGH - LOW) / height
    y = LOW + np.intc(number) * dy
    pixels = [pixel(LEFT + j * dx, y, pause_s) for j in np.arange(width)]
    return np.array(pixels, dtype="i")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    options_of(parser)
    options = parser.parse_args()
    work = partial(line, options.width, options.height, options.pause)
    with MPIPoolExecutor() as executor:
        print(digest(np.array(list(executor.map(work, range(options.height))))))


if __name__ == "__main__":
    main()
