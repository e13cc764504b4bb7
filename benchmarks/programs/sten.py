"""STEN: Jacobi's method for Laplace's equation on a square grid, as a malleable job.

Each row of ranks needs the neighbours' border rows in each iteration. The answer does not
depend on the number of ranks, bit by bit, so it is checked against that of a rigid run.
"""

import argparse
import hashlib
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

from cosched import malleable

NONE = MPI.PROC_NULL


def first_grid(side: int) -> np.ndarray:
    """Returns the grid before the first iteration: one hot edge, and a bump inside."""
    grid = np.zeros((side, side))
    grid[0] = np.linspace(1.0, 2.0, side)
    grid[side // 2, side // 3] = 5.0
    return grid


def iterate(comm: MPI.Intracomm, block: np.ndarray) -> np.ndarray:
    """Returns a rank's block after an iteration. The rim of the grid stays."""
    up = comm.rank - 1 if comm.rank else NONE
    down = comm.rank + 1 if comm.rank + 1 < comm.size else NONE
    above, below = np.zeros_like(block[0]), np.zeros_like(block[0])
    comm.Sendrecv(block[-1], down, recvbuf=above, source=up)
    comm.Sendrecv(block[0], up, recvbuf=below, source=down)
    wide = np.vstack([above, block, below])
    fresh = block.copy()
    inner = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    first, last = int(up == NONE), len(block) - int(down == NONE)
    fresh[first:last, 1:-1] = 0.25 * inner[first:last]
    return fresh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--until", type=Path, help="end as soon as this file exists")
    parser.add_argument("--pause", type=float, default=0.0, help="in each iteration, s")
    options = parser.parse_args()
    done = 0
    with malleable.Job(minimum=1) as job:
        block = job.scatter(first_grid(options.side) if job.rank == 0 else None)
        for step in job.steps(None if options.until else options.iterations):
            if job.resized:
                block = job.redistribute(block)
            if options.until and job.comm.bcast(options.until.exists()):
                break
            block = iterate(job.comm, block)
            time.sleep(options.pause)
            done = step + 1
        grid = job.gather(block)
        if grid is not None:
            digest = hashlib.sha256(grid.tobytes()).hexdigest()[:16]
            print(f"sten side {options.side} iterations {done} answer {digest}", flush=True)


if __name__ == "__main__":
    main()
