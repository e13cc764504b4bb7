"""CL: comparison of gene sequences, as a malleable job.

The source sequences are cut into blocks. In each iteration all of them are compared with
one target sequence, which rank 0 sends: the score of the best local alignment (Smith and
Waterman) is added to that of the source.
"""

import numpy as np

from benchmarks import table1

#: Letters of a sequence.
LENGTH = 64
TARGETS = 100
MATCH, MISMATCH, GAP = 5, -3, 4


def sequences(first: int, count: int) -> table1.Array:
    """Returns sequences by their numbers: letters from 0 to 3."""
    numbers = np.arange(count * LENGTH, dtype=np.uint64) + np.uint64(first * LENGTH)
    return (table1.mixed(numbers) & np.uint64(3)).astype(np.uint8).reshape(count, LENGTH)


def scores(sources: table1.Array, target: table1.Array) -> table1.Array:
    """Returns the best score of each source with the target."""
    slope = GAP * np.arange(LENGTH + 1, dtype=np.int64)
    row = np.zeros((len(sources), LENGTH + 1), np.int64)
    best = np.zeros(len(sources), np.int64)
    for letter in target:
        found = np.zeros_like(row)
        pairs = np.where(sources == letter, MATCH, MISMATCH)
        found[:, 1:] = np.maximum(0, np.maximum(row[:, :-1] + pairs, row[:, 1:] - GAP))
        # A gap of any length: each place takes the best of the places before it.
        row = np.maximum.accumulate(found + slope, axis=1) - slope
        best = np.maximum(best, row.max(axis=1))
    return best


def main() -> None:
    run = table1.Run(__doc__, table1.CL, iterations=TARGETS)
    with run.job() as job:
        begins = job.rank == 0 and not job.joined
        sources = job.scatter(sequences(0, run.size) if begins else None)
        totals = job.scatter(np.zeros(run.size, np.int64) if begins else None)
        for step in run.steps(job):
            if job.resized:
                sources, totals = job.redistribute(sources, totals)
            if not run.goes_on(job):
                break
            target = np.empty(LENGTH, np.uint8)
            if job.rank == 0:
                target = sequences((1 << 32) + step, 1)[0]
            job.comm.Bcast(target)
            totals += scores(sources, target)
        run.answer("cl", job.gather(totals))


if __name__ == "__main__":
    main()
