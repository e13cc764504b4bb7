"""Uses a malleable job wrongly, in the way that its argument names; prints the error."""

import sys

import mpi4py

mpi4py.rc.thread_level = "single"
if sys.argv[1] == "before-init":
    mpi4py.rc.initialize = False

import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402

from cosched import malleable  # noqa: E402
from cosched.core.errors import CoschedError  # noqa: E402


def zero():
    malleable.Job(minimum=0)


def fraction():
    malleable.Job(minimum=1.5)


def minimum_above_ideal():
    malleable.Job(minimum=4, ideal=2)


def before_init():
    malleable.Job()


def after_finalize():
    MPI.Finalize()
    malleable.Job()


def twice():
    with malleable.Job():
        malleable.Job()


def two_loops():
    with malleable.Job() as job:
        list(job.steps(2))
        job.steps(2)


def no_array():
    with malleable.Job() as job:
        job.scatter([1, 2])


def objects():
    with malleable.Job() as job:
        job.scatter(np.array([object()]))


def masked():
    with malleable.Job() as job:
        job.scatter(np.ma.masked_equal(np.arange(4), 2))


def late_scatter():
    with malleable.Job() as job:
        for _ in job.steps(1):
            job.scatter(np.zeros(4))


def disagree_in_dtype():
    with malleable.Job() as job:
        job.redistribute(np.zeros(3, np.float32 if job.rank == 1 else np.float64))


def disagree_in_axis():
    with malleable.Job() as job:
        job.redistribute(np.zeros((2, 2)), axis=job.rank % 2)


def disagree_in_shape():
    with malleable.Job() as job:
        job.gather(np.zeros((2, 2 + job.rank % 2)))


def disagree_in_number():
    with malleable.Job() as job:
        job.redistribute(*[np.zeros(2)] * (1 + job.rank % 2))


def wrong_axis():
    with malleable.Job() as job:
        job.redistribute(np.zeros(2), axis=1)


def wrong_split():
    with malleable.Job(split=lambda total, size: [0] * size) as job:
        job.redistribute(np.zeros(2))


def ask_none():
    with malleable.Job() as job:
        job.ask(0)


def ask_too_many():
    with malleable.Job() as job:
        job.ask(1 << 40)


def ask_fraction():
    with malleable.Job() as job:
        job.ask(1.5)


def nothing():
    with malleable.Job(minimum=1, ideal=1) as job:
        block = job.scatter(np.arange(9.0) if job.rank == 0 else None)
        for step in job.steps(3):
            assert not job.resized
            block = block + step
            job.ask(2)
        assert job.exec_time > 0
        assert job.exec_time_comm is None
        whole = job.gather(block)
        if job.rank == 0:
            assert whole.tolist() == (np.arange(9.0) + 3).tolist()
            print(
                f"ran with {job.size} ranks, thread level {MPI.Query_thread()}", flush=True
            )


if __name__ == "__main__":
    if sys.argv[2:] == ["uncaught"]:
        globals()[sys.argv[1].replace("-", "_")]()
    try:
        globals()[sys.argv[1].replace("-", "_")]()
    except CoschedError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        sys.exit(3)
