"""Iterates until a file exists; rank 0 waits for rank 1 in each iteration. Prints the
times.

python times_program.py STOP_FILE
"""

import sys
import time
from pathlib import Path

from cosched import malleable

SLEEP_S = 0.02


def main():
    stop = Path(sys.argv[1])
    with malleable.Job() as job:
        for _ in job.steps():
            if job.resized:
                job.redistribute()
            if job.comm.bcast(stop.exists()):
                break
            if job.rank == 1:
                time.sleep(SLEEP_S)
            job.comm.Barrier()
        times = job.exec_time, job.exec_time_comm, job.exec_time_comp
        for rank, (whole, waits, works) in enumerate(job.comm.allgather(times)):
            if job.rank == 0:
                shown = "none" if waits is None else f"{waits:.4f} {works:.4f}"
                print(f"rank {rank}: {whole:.4f} {shown}", flush=True)


if __name__ == "__main__":
    main()
