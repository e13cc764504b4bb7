"""Plays a malleable program of a stated pace, for clusters larger than the machine.

All its ranks sleep in each iteration, so that many nodes can share few CPUs. With P nodes
the iterations take ``--seconds`` times (ideal/P + P/ideal) / 2 in all: the parabolic model
of Weissman, Rao Abburi and England (2003), section 4.3. The time that the first ranks need
to start counts as work. A change of size is real, and so is the array that moves.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import psutil

from cosched import malleable
from cosched.core.cluster.queue.sizes.execution import parabolic

#: Iterations take so long at the ideal size, in seconds.
ITERATION_S = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ideal", type=int, required=True, help="nodes")
    parser.add_argument("--seconds", type=float, required=True, help="at the ideal size")
    parser.add_argument("--kilobytes", type=int, default=0, help="of the array")
    options = parser.parse_args()
    iterations = math.ceil(options.seconds / ITERATION_S)
    each_s = options.seconds / iterations
    since_s = time.time() - psutil.Process().create_time()
    due = time.monotonic() - since_s
    with malleable.Job() as job:
        rows = np.zeros((options.kilobytes, 1024), np.uint8) if job.rank == 0 else None
        block = job.scatter(rows)
        for _ in job.steps(iterations):
            if job.resized:
                block = job.redistribute(block)
                due = time.monotonic()
            due += each_s * parabolic(job.size, options.ideal)
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
