"""Redistributes arrays of several kinds in each change, and checks each element.

python arrays_program.py STOP_FILE
"""

import contextlib
import sys
import time
from pathlib import Path

import numpy as np

from cosched import malleable

KINDS = (
    ((41, 6), np.float64, 0, "C"),
    ((3, 37), np.int32, 1, "C"),
    ((4, 29, 5), np.complex128, 1, "C"),
    ((17, 23), np.float32, 1, "F"),
    ((19, 3), np.int16, 0, "F"),
    ((53,), [("a", np.int8), ("b", np.float64)], 0, "C"),
    ((6, 0, 2), np.float64, 0, "C"),
)
AXES = [axis for _, _, axis, _ in KINDS]


def uneven(total, size):
    """The first rank gets half of all rows."""
    return (
        [total]
        if size == 1
        else [total - total // 2, *malleable.even(total // 2, size - 1)]
    )


def whole(shape, dtype, order):
    values = np.arange(np.prod(shape, dtype=int))
    if isinstance(dtype, list):
        array = np.zeros(shape, dtype)
        array["a"], array["b"] = values % 100, values * 1.5
        return array
    return np.asarray(values.reshape(shape), dtype, order=order)


def main():
    stop = Path(sys.argv[1])
    with malleable.Job(split=uneven) as job:
        blocks = [
            job.scatter(whole(shape, kind, order) if job.rank == 0 else None, axis)
            for shape, kind, axis, order in KINDS
        ]
        secret = job.bcast([np.pi] if job.rank == 0 else None)
        assert secret == [np.pi]
        secret.append("changed after bcast")
        passed = 0
        for step in job.steps():
            if job.resized:
                with contextlib.suppress(malleable.Misuse):
                    job.gather(blocks[0])
                    raise AssertionError("gather came before redistribute")
                passed = job.bcast(passed)
                blocks = list(job.redistribute(*blocks, axis=AXES))
                sizes = [uneven(k[0][k[2]], job.size)[job.rank] for k in KINDS]
                assert [b.shape[a] for b, a in zip(blocks, AXES, strict=True)] == sizes
            if job.comm.bcast(stop.exists()):
                break
            assert passed == step
            passed += 1
            time.sleep(0.002)
        assert secret == [np.pi, "changed after bcast"]
        for block, (shape, kind, axis, order) in zip(blocks, KINDS, strict=True):
            found = job.gather(block, axis)
            if job.rank == 0:
                assert np.array_equal(found, whole(shape, kind, order)), (shape, kind)
        if job.rank == 0:
            print("arrays are as they were", flush=True)


if __name__ == "__main__":
    main()
