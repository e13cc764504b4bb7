"""STEN: Jacobi's method for Laplace's equation on a square grid, as a malleable job.

Each rank needs the border rows of its neighbours in each iteration.
"""

import numpy as np
from mpi4py import MPI

from benchmarks import table1

NONE = MPI.PROC_NULL


def first_grid(side: int) -> table1.Array:
    """Returns the grid before the first iteration: one hot edge, and a bump inside."""
    grid = np.zeros((side, side))
    grid[0] = 1.0 + np.arange(side) / side
    grid[side // 2, side // 3] = 5.0
    return grid


def iterate(comm: MPI.Intracomm, block: table1.Array) -> table1.Array:
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
    run = table1.Run(__doc__, table1.STEN, iterations=1000)
    with run.job() as job:
        block = job.scatter(first_grid(run.size) if job.rank == 0 else None)
        for _ in run.steps(job):
            if job.resized:
                block = job.redistribute(block)
            if not run.goes_on(job):
                break
            block = iterate(job.comm, block)
        run.answer("sten", job.gather(block))


if __name__ == "__main__":
    main()
