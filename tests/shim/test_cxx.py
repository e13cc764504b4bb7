"""Compares the output of a C++ program with threads and exceptions, with and without the
interposer."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.shim.jobs import CROWDED, PROGRAMS, printed, run_ours

pytestmark = pytest.mark.mpi_job

#: MPI has dropped the C++ bindings of MPI 2, but some headers still contain them.
FLAGS = (
    "-std=c++17",
    "-O1",
    "-Wall",
    "-Wextra",
    "-DMPICH_SKIP_MPICXX",
    "-DOMPI_SKIP_MPICXX",
)


@pytest.fixture(scope="session")
def objects(mpi, tmp_path_factory):
    wrapper = mpi.mpicc.with_name(mpi.mpicc.name.replace("mpicc", "mpicxx"))
    if not wrapper.exists() or shutil.which("g++") is None:
        pytest.skip(f"{mpi.family.title} {mpi.version}: no C++ compiler: {wrapper}")
    program = tmp_path_factory.mktemp("objects") / "objects"
    path = f"{mpi.mpicc.parent}{os.pathsep}{os.environ['PATH']}"
    built = subprocess.run(
        [wrapper, *FLAGS, PROGRAMS / "objects.cc", "-o", program, "-pthread"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert built.returncode == 0, built.stderr
    return str(program)


@pytest.mark.parametrize("ranks", [2])
def test_cxx_output_with_interposer_is_the_same(mpi, objects, served, ranks):
    environ = {"COSCHED_RUN_DIR": str(served.run_dir), **CROWDED}
    words = ("-n", str(ranks), objects)
    plain = printed(run_ours(mpi, environ, "--no-shim", *words))
    assert len(plain) == ranks
    for carrier in ("prefix", "shadow"):
        assert printed(run_ours(mpi, environ, "--carrier", carrier, *words)) == plain
