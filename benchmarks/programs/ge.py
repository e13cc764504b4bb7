"""GE: Gaussian elimination with partial pivoting, as a malleable job.

An iteration eliminates one column. Rows are not exchanged: each row has the number of the
iteration in which it was the pivot, and moves with it. After a system comes the next one.
"""

import numpy as np
from mpi4py import MPI

from benchmarks import table1

#: In the last place of a row that has not been a pivot.
WAITS = -1.0


def fill(block: table1.Array, first: int, system: int) -> None:
    """Fills a rank's rows of a system: coefficients, right side, WAITS. The solution is 1
    everywhere."""
    rows, size = len(block), block.shape[1] - 2
    numbers = np.arange(rows * size, dtype=np.uint64).reshape(rows, size)
    numbers += np.uint64((system << 40) + first * size)
    block[:, :size] = (table1.mixed(numbers) >> np.uint64(40)).astype(float) / 2.0**24
    block[:, size] = np.add.accumulate(block[:, :size], axis=1)[:, -1]
    block[:, size + 1] = WAITS


def eliminate(comm: MPI.Intracomm, block: table1.Array, first: int, column: int) -> None:
    """Eliminates a column from all rows that wait, after the choice of a pivot."""
    waits = block[:, -1] == WAITS
    sizes = np.where(waits, np.abs(block[:, column]), -1.0)
    mine = int(np.argmax(sizes)) if len(sizes) else 0
    largest = (float(sizes[mine]), -(first + mine)) if len(sizes) else (-1.0, 0)
    candidates = comm.allgather(largest)
    owner = candidates.index(max(candidates))
    pivot = block[mine].copy() if comm.rank == owner else np.empty(block.shape[1])
    comm.Bcast(pivot, owner)
    if comm.rank == owner:
        block[mine, -1] = column
        waits[mine] = False
    factors = block[waits, column] / pivot[column]
    block[waits, column:-1] -= np.outer(factors, pivot[column:-1])


def main() -> None:
    run = table1.Run(__doc__, table1.GE)
    with run.job() as job:
        size = run.size
        block = job.scatter(np.zeros((size, size + 2)) if job.rank == 0 else None)
        first = -1
        for step in run.steps(job):
            if job.resized:
                block = job.redistribute(block)
                first = -1
            if not run.goes_on(job):
                break
            if first < 0:
                first = job.comm.scan(len(block)) - len(block)
            if step % size == 0:
                fill(block, first, step // size)
            eliminate(job.comm, block, first, step % size)
        run.answer("ge", job.gather(block))


if __name__ == "__main__":
    main()
