"""Runs several command lines of ``python -m benchmarks.npb`` in one job.

``python -m mpi4py -m tests.npb.several RUNS`` under mpiexec. RUNS is a list in JSON. Each
item has the words of a command line and a change or null. A change is a table of
``benchmarks.npb.classes``, a field, a part of its value or null, and a factor. Rank 0
prints a list in JSON: the exit statuses of all ranks, and its own output.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import runpy
import sys
from dataclasses import replace
from unittest.mock import patch

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the program does before it imports numpy

from benchmarks.npb import classes, kernels


def changed(table, field, part, factor):
    """Returns a table with one changed value of class S."""
    sizes = getattr(classes, table)
    value = getattr(sizes["S"], field)
    if part is None:
        value = value * factor
    else:
        value = (*value[:part], value[part] * factor, *value[part + 1 :])
    return {**sizes, "S": replace(sizes["S"], **{field: value})}


def run(words, change):
    """Returns the exit status, standard output and standard error of one run."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(sys, "argv", ["npb", *words]))
        if change is not None:
            stack.enter_context(patch.dict(getattr(classes, change[0]), changed(*change)))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            runpy.run_module("benchmarks.npb", run_name="__main__")
        except SystemExit as end:
            return end.code, out.getvalue(), err.getvalue()
    raise AssertionError("npb has not called sys.exit")


def main():
    runs = json.loads(sys.argv[1])
    # Builds come before MPI starts, as in the program.
    kernels.load = functools.cache(kernels.load)
    for words, _ in runs:
        kernels.load(words[0])
    from mpi4py import MPI

    found = []
    for words, change in runs:
        status, out, err = run(words, change)
        statuses = MPI.COMM_WORLD.gather(status)
        found.append({"statuses": statuses, "out": out, "err": err})
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(found))


main()
