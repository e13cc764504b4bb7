"""Errors reach the user's error handler as without the interposer, calls of the library may
fail, and a rank without memory for the interposer's own needs delays no other rank."""

from __future__ import annotations

import subprocess

import pytest

from tests.fakes import FakeNode
from tests.shim.jobs import (
    CROWDED,
    PROGRAMS,
    compile_library,
    launch_on_nodes,
    outcome,
    printed,
    run_ours,
)

pytestmark = pytest.mark.mpi_job


@pytest.fixture(scope="module")
def scarce(tmp_path_factory):
    """Returns a library to preload: the interposer gets no memory on odd ranks."""
    library = tmp_path_factory.mktemp("scarce") / "scarce.so"
    source = PROGRAMS / "scarce.c"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", source, "-o", library],
        check=True,
    )
    return library


@pytest.fixture
def faulty(mpi, shim_for, tmp_path):
    """Returns what to preload: calls of the library fail in ways that MPI allows."""
    library = tmp_path / "faulty.so"
    compile_library(mpi, "faulty", library)
    return f"{shim_for(mpi.mpicc)} {library}"


def test_status_is_sent_again_after_failed_send(mpi, build, faulty, run_dir, job_environ):
    environ = {**job_environ, **CROWDED, "SHIM": faulty, "COSCHED_STATUS": "shadow"}
    with FakeNode(run_dir, "a", scheduled=False) as a, FakeNode(run_dir, "b") as b:
        launch = launch_on_nodes(mpi, 2, build("meet"), "recv", "5")
        assert outcome(launch, environ) == ["met"]
        assert b.jobs["wrapped"].tasks
        assert a.jobs["wrapped"].counters(0)["told"] == 1


@pytest.mark.parametrize("carrier", ["prefix", "none"])
def test_waitall_frees_complete_requests_after_error(
    mpi, build, faulty, job_environ, carrier
):
    if not mpi.version.startswith("4.0"):
        pytest.skip(f"{mpi.family.title} {mpi.version} waits in MPI_Waitall itself")
    environ = {**job_environ, "SHIM": faulty, "COSCHED_WAIT": "yield"}
    environ["COSCHED_STATUS"] = carrier
    assert outcome(launch_on_nodes(mpi, 2, build("partial")), environ) == [
        "0: values: 10, 11",
        "0: waitall: in status, received freed, too long freed, pending kept",
    ]


WAYS = (
    ("--carrier", "prefix"),
    ("--carrier", "shadow"),
    ("--carrier", "none"),
    ("--carrier", "none", "--wait", "yield"),
    ("--waits-only", "--wait", "block:0us"),
)


def test_uncommitted_type_raises_the_same_errors(mpi, build, served):
    program = ("-n", "2", build("errors"))
    environ = {"COSCHED_RUN_DIR": str(served.run_dir)}
    plain = printed(run_ours(mpi, environ, "--no-shim", *program))
    assert plain
    for how in WAYS:
        assert printed(run_ours(mpi, environ, *how, *program)) == plain, how


@pytest.mark.newest_mpi
def test_own_error_reaches_error_handler(
    mpi, build, shim_for, scarce, run_dir, job_environ
):
    environ = {**job_environ, "SHIM": f"{scarce} {shim_for(mpi.mpicc)}"}
    launch = launch_on_nodes(mpi, 2, build("errors"), "no-memory")
    assert outcome(launch, {**environ, "COSCHED_STATUS": "prefix"}) == [
        "1: isend: no memory, handler called 1 times, with no memory",
        "1: send_init: no memory, handler called 1 times, with no memory",
    ]


@pytest.mark.newest_mpi
def test_requests_without_memory_still_complete(
    mpi, build, shim_for, scarce, run_dir, job_environ
):
    """Under shadow, with no piece of memory of a kilobyte or more."""
    environ = {**job_environ, **CROWDED, "SHIM": f"{scarce} {shim_for(mpi.mpicc)}"}
    environ |= {"COSCHED_STATUS": "shadow", "SCARCE_FROM": "1024"}
    lines = outcome(launch_on_nodes(mpi, 2, build("errors"), "many"), environ)
    names = ("startall", "waitall") * 3
    calls = [f"{what}: ok, handler called 0 times, with ok" for what in names]
    assert lines == sorted(
        f"{rank}: {line}" for rank in (0, 1) for line in (*calls, "120 came")
    )


@pytest.mark.newest_mpi
def test_rank_without_memory_delays_no_rank(
    mpi, build, shim_for, scarce, run_dir, job_environ
):
    environ = {**job_environ, **CROWDED, "SHIM": f"{scarce} {shim_for(mpi.mpicc)}"}
    launch = launch_on_nodes(mpi, 3, build("life"))
    lines = outcome(launch, {**environ, "COSCHED_STATUS": "shadow"})
    assert lines == [f"{rank}: all around" for rank in range(3)]
