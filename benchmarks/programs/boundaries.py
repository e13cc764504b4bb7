"""Measures a boundary without a change: prints, for each round, the time of an empty
iteration of a malleable job beside that of an empty loop, in ns.

    python boundaries.py ROUNDS
"""

import sys
import time
from itertools import count, islice

from cosched import malleable

ITERATIONS = 100_000


def main() -> None:
    rounds = int(sys.argv[1])
    with malleable.Job() as job:
        steps = job.steps()
        for _ in range(rounds):
            since = time.perf_counter_ns()
            for _ in islice(steps, ITERATIONS):
                pass
            between = time.perf_counter_ns()
            for _ in islice(count(), ITERATIONS):
                pass
            loop = time.perf_counter_ns() - between
            print((between - since - loop) / ITERATIONS, flush=True)


if __name__ == "__main__":
    main()
