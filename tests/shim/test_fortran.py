"""Runs a Fortran program by mpif.h, by the module mpi and by the module mpi_f08. It checks
every message that it receives. With the interposer its output is the same and each message
is counted, so no binding bypasses the interposer."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from cosched.shm._native import lib
from tests.fakes import FakeNode
from tests.shim.jobs import CROWDED, PROGRAMS, launch_on_nodes, outcome, printed, run_ours

pytestmark = pytest.mark.mpi_job

FORMS = ("MPIF", "USE", "F08")
CMDOUT, CMDSCH = lib.COSCHED_CMDOUT, lib.COSCHED_CMDSCH
#: mpif.h declares no arguments, so gfortran expects those of the first call.
FLAGS = ("-cpp", "-O1", "-w", "-fallow-argument-mismatch")


@pytest.fixture(scope="session", params=FORMS)
def ring(request, mpi, tmp_path_factory):
    """Returns the program in each form, built by the compiler wrapper of ``mpi``."""
    wrapper = mpi.mpicc.with_name(mpi.mpicc.name.replace("mpicc", "mpif90"))
    if not wrapper.exists():
        pytest.skip(f"{mpi.family.title} {mpi.version} has no Fortran: no {wrapper}")
    if shutil.which("gfortran") is None:
        pytest.skip("gfortran is not installed")
    program = tmp_path_factory.mktemp("ring") / "ring"
    built = subprocess.run(
        [
            *(wrapper, *FLAGS, f"-DFORM_{request.param}"),
            *(PROGRAMS / "ring.F90", "-o", program),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if "module file" in built.stderr or "Reading module" in built.stderr:
        pytest.skip(f"{wrapper} has no module for FORM_{request.param}")
    assert built.returncode == 0, built.stderr
    return str(program)


def counted(lines):
    """Returns how many messages each rank has sent and received, from the last lines."""
    words = [line.split() for line in lines if line.startswith("messages:")]
    return {int(word[2]): (int(word[4]), int(word[6])) for word in words}


def test_fortran_output_with_interposer_is_the_same(mpi, ring, served):
    """On three ranks; the next test has two, where both neighbours are one rank."""
    environ = {"COSCHED_RUN_DIR": str(served.run_dir), **CROWDED}
    words = ("-n", "3", ring)
    plain = printed(run_ours(mpi, environ, "--no-shim", *words))
    assert len(counted(plain)) == 3
    for carrier in ("prefix", "none"):
        run = run_ours(mpi, environ, "--carrier", carrier, *words)
        assert printed(run) == plain, carrier


def test_fortran_messages_are_counted_and_trapped(
    mpi, ring, shim_for, run_dir, job_environ
):
    """Rank 0 is scheduled and rank 1 is not, so rank 1's messages are trapped."""
    shim = shim_for(mpi.mpicc)
    environ = {**job_environ, **CROWDED, "SHIM": str(shim)}
    launch = launch_on_nodes(mpi, 2, ring)
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b", scheduled=False) as b:
        said = counted(outcome(launch, environ))
        jobs = (a.jobs["wrapped"], b.jobs["wrapped"])
        counters = [job.counters(rank) for rank, job in enumerate(jobs)]
        assert [(job.tasks[0].rank, job.tasks[0].world) for job in jobs] == [(0, 2), (1, 2)]
        assert jobs[0].codes() == [CMDOUT]
        assert jobs[1].codes() == [CMDSCH, CMDOUT]
    for rank, counts in enumerate(counters):
        assert (counts["sent"], counts["received"]) == said[rank]
        assert counts["foreign"] == 0
    assert counters[0]["trapped"] == 0
    assert counters[1]["trapped"] > 0
    # Stale: also from a scheduled peer, but arrived before rank 1 looked for it.
    assert counters[1]["trapped"] + counters[1]["stale"] == counters[1]["received"]
    assert counters[1]["posted"] == 1  # once an epoch


def test_binding_inside_library_is_refused(mpi, shim_for, run_dir, tmp_path):
    """Its messages look like the library's own."""
    shim = shim_for(mpi.mpicc)
    binding, program = tmp_path / "libmca_fortran.so", tmp_path / "inside"
    source = PROGRAMS / "inside.c"
    path = f"{mpi.mpicc.parent}{os.pathsep}{os.environ['PATH']}"
    for words in (
        ("-DBINDING", "-shared", "-fPIC", source, "-o", binding),
        (source, binding, f"-Wl,-rpath,{tmp_path}", "-o", program),
    ):
        built = [mpi.mpicc, "-Wall", "-Wextra", "-Werror", *words]
        subprocess.run(built, check=True, env={**os.environ, "PATH": path})
    environ = {
        **os.environ,
        **CROWDED,
        "COSCHED_JOB": "inside",
        "COSCHED_RUN_DIR": str(run_dir),
    }
    launch = mpi.launch("-n", "1", "sh", "-c", 'LD_PRELOAD=$SHIM exec "$0"', str(program))
    for status, expected in (("prefix", False), ("none", True)):
        run = subprocess.run(
            launch,
            env={**environ, "SHIM": str(shim), "COSCHED_STATUS": status},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert (run.returncode == 0) == expected, run.stderr
        assert ("cosched-run --carrier none" in run.stderr) != expected
