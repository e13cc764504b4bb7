"""What is wrong with a call is told to the user's error handler, as without the interposer;
and a rank that has no memory for the interposer's own needs holds up nobody."""

from __future__ import annotations

import subprocess

import pytest

from tests.shim.jobs import CROWDED, PROGRAMS, cosched_run, launch_on_nodes, outcome

pytestmark = pytest.mark.mpi_job


@pytest.fixture(scope="module")
def scarce(tmp_path_factory):
    """What to preload so that the interposer gets no memory on odd ranks."""
    library = tmp_path_factory.mktemp("scarce") / "scarce.so"
    source = PROGRAMS / "scarce.c"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", source, "-o", library],
        check=True,
    )
    return library


@pytest.mark.parametrize(
    "how",
    [
        ["--carrier", "prefix"],
        ["--carrier", "shadow"],
        ["--carrier", "none"],
        ["--carrier", "none", "--wait", "yield"],
        ["--waits-only", "--wait", "block:0us"],
    ],
    ids=" ".join,
)
def test_types_that_were_never_committed(mpi, build, run_dir, how):
    program = ("-n", "2", build("errors"))
    environ = {"COSCHED_RUN_DIR": str(run_dir)}
    plain = outcome(cosched_run(mpi, "--no-shim", *program), environ)
    assert plain
    assert outcome(cosched_run(mpi, *how, *program), environ) == plain


def test_an_error_of_the_shims_own_is_told_like_the_librarys(
    mpi, build, shim_for, scarce, run_dir, job_environ
):
    environ = {**job_environ, "SHIM": f"{scarce} {shim_for(mpi.mpicc)}"}
    launch = launch_on_nodes(mpi, 2, build("errors"), "no-memory")
    assert outcome(launch, {**environ, "COSCHED_STATUS": "prefix"}) == [
        "1: isend: no memory, handler told 1 times, of no memory",
        "1: send_init: no memory, handler told 1 times, of no memory",
    ]


def test_without_memory_for_what_is_only_a_hint_it_is_waited_for(
    mpi, build, shim_for, scarce, run_dir, job_environ
):
    """Out of band: each piece of a kilobyte or more is refused."""
    environ = {**job_environ, **CROWDED, "SHIM": f"{scarce} {shim_for(mpi.mpicc)}"}
    environ |= {"COSCHED_STATUS": "shadow", "SCARCE_FROM": "1024"}
    lines = outcome(launch_on_nodes(mpi, 2, build("errors"), "many"), environ)
    told = ("startall", "waitall") * 3
    calls = [f"{what}: ok, handler told 0 times, of ok" for what in told]
    assert lines == sorted(
        f"{rank}: {line}" for rank in (0, 1) for line in (*calls, "120 came")
    )


def test_a_rank_without_memory_holds_up_nobody(
    mpi, build, shim_for, scarce, run_dir, job_environ
):
    environ = {**job_environ, **CROWDED, "SHIM": f"{scarce} {shim_for(mpi.mpicc)}"}
    launch = launch_on_nodes(mpi, 3, build("life"))
    lines = outcome(launch, {**environ, "COSCHED_STATUS": "shadow"})
    assert lines == [f"{rank}: all around" for rank in range(3)]
