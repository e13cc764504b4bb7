"""MPI programs run inside: one of C, compiled outside, and one of mpi4py."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from .programs import program

pytestmark = [pytest.mark.vm, pytest.mark.mpi_job]

SUM_OF_RANKS = "from mpi4py.MPI import COMM_WORLD as w; print(w.allreduce(w.rank))"


def _mpiexec(*command: str) -> str:
    mpiexec = shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("no mpiexec in the machine")
    done = subprocess.run(
        [mpiexec, "-n", "2", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_c_program_verifies_its_result() -> None:
    said = _mpiexec(program("wavefront"), "--preset", "tiny")
    assert "verification: success" in said


def test_python_program_sums_over_ranks() -> None:
    assert _mpiexec(sys.executable, "-c", SUM_OF_RANKS).split() == ["1", "1"]
