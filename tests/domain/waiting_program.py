"""A malleable program that makes its job, and ends each iteration, once a file is there.

python waiting_program.py FOLDER
"""

import sys
import time
from pathlib import Path

import numpy as np

from cosched import malleable


def wait_for(path):
    while not path.exists():
        time.sleep(0.005)


def main():
    folder = Path(sys.argv[1])
    (folder / "began").touch()
    wait_for(folder / "make")
    with malleable.Job(minimum=2, ideal=5) as job:
        block = job.scatter(np.arange(12.0) if job.rank == 0 else None)
        job.ask(4)
        for step in job.steps():
            if job.resized:
                block = job.redistribute(block)
            if job.comm.bcast((folder / "stop").exists()):
                break
            if step == 2:
                (folder / "in-loop").touch()
            if step > 1:
                wait_for(folder / "go")
            time.sleep(0.02)
        total = job.comm.allreduce(block.sum())
        if job.rank == 0:
            print(f"{job.size} ranks, sum {total:.0f}", flush=True)


if __name__ == "__main__":
    main()
