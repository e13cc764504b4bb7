"""A malleable program in which a rank is killed in a phase of a change, or does not leave.

python dying_program.py PHASE STOP_FILE

With PHASE "starts" a new rank dies before MPI begins in it, as if MPI_Init had failed,
until there is a file STOP_FILE.healed. With "quits" new ranks end well before they make
their job.
With PHASE "stays" a rank that leaves goes on until it gets SIGTERM, and with "resists"
until it is killed. At its end rank 0 writes the sum of the rows, 66.
"""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

if (
    sys.argv[1] == "starts"
    and "cosched-generation" in sys._xoptions
    and not Path(f"{sys.argv[2]}.healed").exists()
):
    os.kill(os.getpid(), signal.SIGKILL)

from cosched import malleable
from cosched.malleable import blocks
from cosched.malleable.worlds import Worlds, own_generation

PHASE, STOP = sys.argv[1], Path(sys.argv[2])
IS_NEW = own_generation() > 0


def die(*_args, **_more):
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    if PHASE == "joins" and IS_NEW:
        die()
    if PHASE == "exits" and IS_NEW:
        raise SystemExit(3)
    if PHASE == "quits" and IS_NEW:
        raise SystemExit(0)
    if PHASE == "unites" and not IS_NEW:
        Worlds.unite = die
    with malleable.Job() as job:
        block = job.scatter(np.arange(12.0) if job.rank == 0 else None)
        for _ in job.steps():
            if job.resized:
                if PHASE == "moves" and not IS_NEW:
                    blocks.move = die
                if PHASE == "settles" and not IS_NEW:
                    Worlds.settle = die
                block = job.redistribute(block)
                if PHASE == "resumes" and IS_NEW:
                    die()
            if job.comm.bcast(STOP.exists()):
                break
            time.sleep(0.02)
        total = job.comm.allreduce(block.sum())
        if job.rank == 0:
            print(f"{job.size} ranks, sum {total:.0f}")


if __name__ == "__main__":
    try:
        main()
    except SystemExit:
        if PHASE == "resists":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if PHASE in ("stays", "resists"):
            signal.pause()
        raise
