"""Holds an array and sleeps in each iteration, as a malleable job to measure changes of.

``--mark FILE`` gets the time of CLOCK_MONOTONIC, in ns, at which all ranks came to their
first barrier with their data. ``--save FOLDER`` writes each rank's block to a file at the
end. ``--load FOLDER`` reads them, for any number of ranks. The same as holding.c.
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from cosched import malleable

Array = np.ndarray[Any, np.dtype[np.uint8]]

ROW_BYTES = 8192
ROWS_A_MEGABYTE = 1_000_000 // ROW_BYTES
#: Without data each of many ranks still has a row.
ROWS_LEAST = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--megabytes", type=int, default=0, help="of the array")
    add("--pause", type=float, default=0.005, help="in each iteration, s")
    add("--until", type=Path, help="end as soon as this file exists; without it: at once")
    add("--mark", type=Path, help="where the time of the first barrier is written")
    add("--save", type=Path, help="where blocks are written at the end")
    add("--load", type=Path, help="where blocks are read at the begin")
    options = parser.parse_args()
    rows = max(ROWS_LEAST, options.megabytes * ROWS_A_MEGABYTE)
    with malleable.Job() as job:
        if options.load:
            block = load(options.load, rows, job.rank, job.size)
        else:
            whole = np.zeros((rows, ROW_BYTES), np.uint8) if job.rank == 0 else None
            block = job.scatter(whole)
        if not job.joined:
            job.comm.Barrier()
            if job.rank == 0 and options.mark:
                mark(options.mark)
        for _ in job.steps(None if options.until else 0):
            if job.resized:
                block = job.redistribute(block)
            if job.comm.bcast(options.until.exists()):
                break
            time.sleep(options.pause)
        if options.save:
            block.tofile(options.save / f"block-{job.rank}")


def mark(path: Path) -> None:
    """Writes the present time, whole or not at all."""
    aside = path.with_suffix(".new")
    aside.write_text(str(time.monotonic_ns()))
    os.replace(aside, path)


def load(folder: Path, rows: int, rank: int, size: int) -> Array:
    """Returns a rank's block, from the files that another number of ranks has written."""
    counts = malleable.even(rows, size)
    first = sum(counts[:rank]) * ROW_BYTES
    block = np.empty((counts[rank], ROW_BYTES), np.uint8)
    flat, last = block.reshape(-1), first + block.nbytes
    paths = [folder / f"block-{number}" for number in range(len(list(folder.iterdir())))]
    starts = accumulate((path.stat().st_size for path in paths), initial=0)
    for path, start in zip(paths, starts, strict=False):
        low, high = max(first, start), min(last, start + path.stat().st_size)
        if low < high:
            part = np.fromfile(path, np.uint8, high - low, offset=low - start)
            flat[low - first : high - first] = part
    return block


if __name__ == "__main__":
    main()
