"""Profiling tools: a warning names a tool that the interposer bypasses, and no other."""

from __future__ import annotations

import pytest

from tests.shim.jobs import CROWDED, compile_library, launch_on_nodes, run_job

pytestmark = [pytest.mark.mpi_job, pytest.mark.newest_mpi]


@pytest.fixture
def run(mpi, build, job_environ):
    """Returns the output of a run of two ranks, and cosched's lines."""

    def run_preloaded(preloads, *linked):
        environ = {**job_environ, **CROWDED, "COSCHED_STATUS": "none", "SHIM": preloads}
        done = run_job(launch_on_nodes(mpi, 2, build("life", *linked)), environ)
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stderr.splitlines() if line.startswith("cosched:")]
        others = [line for line in said if "no daemon on" not in line]
        assert len(said) - len(others) == 1  # rank 0 reports this
        return sorted(done.stdout.splitlines()), others

    return run_preloaded


AROUND = ["0: all around", "1: all around"]


@pytest.fixture
def tool(tmp_path):
    return tmp_path / "libtool.so"


def test_bypassed_tool_is_reported(mpi, shim_for, tool, run):
    linked = compile_library(mpi, "tool", tool)
    printed, said = run(str(shim_for(mpi.mpicc)), *linked)
    assert printed == sorted([*AROUND, "0: the tool saw 0", "1: the tool saw 0"])
    (line,) = said
    assert f"{tool}, linked between the program and MPI, misses" in line
    assert f"LD_PRELOAD={tool} cosched-run" in line


def test_tool_in_front_gets_all_calls(mpi, shim_for, tool, run):
    linked = compile_library(mpi, "tool", tool)
    printed, said = run(f"{tool}:{shim_for(mpi.mpicc)}", *linked)
    # Twenty messages around, and rank 1's lines to rank 0 at the end.
    assert printed == sorted([*AROUND, "0: the tool saw 20", "1: the tool saw 22"])
    assert said == []


def test_run_without_tool_reports_none(mpi, shim_for, run):
    assert run(str(shim_for(mpi.mpicc))) == (AROUND, [])


def test_library_of_two_halves_is_no_tool(mpi, shim_for, tmp_path, run):
    linked = compile_library(mpi, "halves", tmp_path / "libhalf.so")
    assert run(str(shim_for(mpi.mpicc)), *linked) == (AROUND, [])
