"""Measures the memory that a rank needs for a change beside its old and its new block.

python memory_program.py STOP_FILE
"""

import resource
import sys
import time
from pathlib import Path

import numpy as np

from cosched import malleable

MIB = 1 << 20
SHAPE, AXIS = (4, 3 * MIB), 1  # 96 MiB, cut across its rows


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    stop = Path(sys.argv[1])
    with malleable.Job() as job:
        whole = np.ones(SHAPE) if job.rank == 0 and not job.joined else None
        block = whole if whole is not None else np.empty((4, 0))
        whole = None
        for _ in job.steps():
            if job.resized:
                before = peak_mib()
                block = job.redistribute(block, axis=AXIS)
                extra = peak_mib() - before - block.nbytes / MIB
                most = max(job.comm.allgather(extra))
                if job.rank == 0:
                    print(f"extra {most:.0f} MiB", flush=True)
            if job.comm.bcast(stop.exists()):
                break
            time.sleep(0.01)
        assert (block == 1).all()


if __name__ == "__main__":
    main()
