"""The interposer fails open: if a part is missing, full or of another version, the program
still gets its messages and ends as without the interposer."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from cosched.launch.family import Family
from cosched.rundir.paths import NodePaths
from cosched.shm._native import lib
from tests.fakes import FakeNode, eventually
from tests.run.conftest import INSTALLED, wrapper_works
from tests.shim.jobs import (
    CROWDED,
    PROGRAMS,
    compile_program,
    launch_on_nodes,
    outcome,
    run_job,
    run_ours,
)

pytestmark = [pytest.mark.mpi_job, pytest.mark.newest_mpi]

CMDOUT, CMDSCH = lib.COSCHED_CMDOUT, lib.COSCHED_CMDSCH
CARRIERS = ("prefix", "shadow", "none")
#: Preloads $SHIM into all ranks except $BARE.
PARTLY = """
rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}
if [ "$rank" != "$BARE" ]; then export LD_PRELOAD=$SHIM; fi
exec "$0" "$@"
"""


@pytest.fixture
def environ(mpi, shim_for, job_environ):
    return {**job_environ, **CROWDED, "SHIM": str(shim_for(mpi.mpicc))}


def all_around(ranks):
    return [f"{rank}: all around" for rank in range(ranks)]


# A rank without the interposer


@pytest.mark.parametrize(("ranks", "bare"), [(2, 0), (2, 1), (3, 1)])
def test_rank_without_shim_under_none_runs(mpi, build, environ, ranks, bare):
    launch = mpi.launch("-n", str(ranks), "sh", "-c", PARTLY, build("life"), "plain")
    environ |= {"COSCHED_STATUS": "none", "BARE": str(bare)}
    assert outcome(launch, environ) == all_around(ranks)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if mpi.version.startswith("5") else (pytest.mark.long,))
        for name, mpi in sorted(INSTALLED.items())
    ],
)
def new_mpi(request):
    """Yields the new libraries: each such test takes the ten seconds of the deadline."""
    with wrapper_works(INSTALLED[request.param]) as found:
        yield found


@pytest.mark.parametrize("bare", [pytest.param(0, marks=pytest.mark.long), 1])
def test_rank_without_shim_under_shadow_stops_no_job(
    new_mpi, shim_for, job_environ, tmp_path, bare
):
    """The ranks agree to join nothing, so the program's own communicators are made. One
    rank reports it, and one names the node that has no daemon."""
    program = compile_program(new_mpi, "life", tmp_path)
    environ = {**job_environ, **CROWDED, "SHIM": str(shim_for(new_mpi.mpicc))}
    environ |= {"COSCHED_STATUS": "shadow", "BARE": str(bare)}
    launch = new_mpi.launch("-n", "3", "sh", "-c", PARTLY, program, "comms")
    run = run_job(launch, environ)
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == all_around(3)
    warnings = [line for line in run.stderr.splitlines() if line.startswith("cosched:")]
    assert sum("a rank has no shim" in line for line in warnings) == 1, warnings
    assert sum("no daemon on" in line for line in warnings) == (bare != 0), warnings
    assert len(warnings) == 1 + (bare != 0)


# The daemon


def test_daemon_of_other_version_is_reported(mpi, build, environ, run_dir):
    launch = launch_on_nodes(mpi, 2, build("life"))
    environ |= {"COSCHED_STATUS": "shadow", "COSCHED_VERBOSE": "1"}
    other = lib.COSCHED_ABI + 1
    with FakeNode(run_dir, "a", abi=other), FakeNode(run_dir, "b", abi=other):
        run = run_job(launch, environ)
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == all_around(2)
    assert run.stderr.count("another version (run 'cosched up --restart' on its node)") == 2


@pytest.mark.parametrize("carrier", ["prefix", "shadow"])
def test_request_to_full_ring_is_dropped(mpi, build, environ, run_dir, carrier):
    """A request without a free place is dropped and counted, and the task goes on."""

    def fill(job):
        while job.region.post(CMDOUT, slot=lib.COSCHED_TASKS_MAX - 1):
            pass

    launch = launch_on_nodes(mpi, 2, build("meet"), "recv", "3")
    with (
        FakeNode(run_dir, "a"),
        FakeNode(run_dir, "b", scheduled=False, prepare=fill) as b,
    ):
        assert outcome(launch, {**environ, "COSCHED_STATUS": carrier}) == ["met"]
        job = b.jobs["wrapped"]
        counters = job.counters(1)
        assert set(job.codes()) == {CMDOUT}
    assert counters["trapped"] >= 1
    assert counters["dropped"] >= 1
    assert counters["posted"] == 0


@pytest.mark.parametrize("carrier", ["prefix", "shadow"])
def test_daemon_end_in_mid_run_stops_no_task(mpi, build, environ, run_dir, carrier):
    """Rank 1's daemon ends as soon as rank 1 asks to be scheduled."""
    asked = threading.Event()

    def note(_, request):
        if request.code == CMDSCH:
            asked.set()

    with (
        FakeNode(run_dir, "a"),
        FakeNode(run_dir, "b", scheduled=False, on_request=note) as b,
    ):
        launch = launch_on_nodes(mpi, 2, build("meet"), "recv", "20")
        found = []
        run = threading.Thread(
            target=lambda: found.append(
                run_job(launch, {**environ, "COSCHED_STATUS": carrier})
            )
        )
        run.start()
        try:
            assert asked.wait(60)
            b.close()
        finally:
            run.join()
    assert found[0].stdout == "met\n", found[0].stderr
    assert found[0].returncode == 0


# The library


@pytest.fixture(scope="session")
def lacking(tmp_path_factory):
    """Returns a library to preload: it hides the call that LACKING names."""
    library = tmp_path_factory.mktemp("lacking") / "lacking.so"
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["gcc", *flags, PROGRAMS / "lacking.c", "-o", library], check=True)
    return library


def run_lacking(mpi, build, environ, lacking, carrier):
    environ = {**environ, "COSCHED_STATUS": carrier, "LACKING": "PMPI_Request_get_status"}
    environ["SHIM"] += f" {lacking}"
    return run_job(launch_on_nodes(mpi, 2, build("lacked")), environ)


def lines_with(run, text):
    """Returns the interposer's lines that contain this text."""
    lines = run.stderr.splitlines()
    return [line for line in lines if line.startswith("cosched:") and text in line]


@pytest.mark.parametrize("carrier", ["shadow", "none"])
def test_missing_call_under_other_carriers_is_reported(
    mpi, build, environ, lacking, carrier
):
    """The program runs on, and only the missing call is refused."""
    run = run_lacking(mpi, build, environ, lacking, carrier)
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == ["0: refused", "1: refused"]
    warnings = lines_with(run, "the program runs on without it")
    assert len(warnings) == 2
    assert all("has no PMPI_Request_get_status:" in line for line in warnings)
    assert len(lines_with(run, ": MPI_Request_get_status: ")) == 2


def test_missing_call_under_prefix_is_refused(mpi, build, environ, lacking):
    run = run_lacking(mpi, build, environ, lacking, "prefix")
    assert run.returncode != 0
    assert "has no PMPI_Request_get_status:" in lines_with(run, ": MPI_Init: ")[0]


def test_older_library_runs_without_shim(shim_for, job_environ, tmp_path):
    """For example, a program may have an RPATH of its own."""
    mpichs = [
        mpi for mpi in INSTALLED.values() if mpi.family is Family.MPICH and not mpi.intel
    ]
    old = [mpi for mpi in mpichs if mpi.version.startswith("4.0")]
    new = [mpi for mpi in mpichs if mpi.version.startswith("5")]
    if not old or not new:
        pytest.skip("there are no two versions of MPICH")
    program = compile_program(old[0], "life", tmp_path)
    environ = {**job_environ, "COSCHED_STATUS": "shadow"}
    environ["SHIM"] = str(shim_for(new[0].mpicc))
    run = run_job(launch_on_nodes(old[0], 2, program), environ)
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == all_around(2)
    assert len(lines_with(run, "the program runs on without it")) == 2


# The program


def test_errno_is_zero_when_main_begins(mpi, shim_for, job_environ, tmp_path):
    """The rank tried to reach a daemon before, which does not run."""
    program = tmp_path / "errno"
    subprocess.run(["gcc", PROGRAMS / "errno.c", "-o", program], check=True)
    environ = {**job_environ, "PMI_RANK": "0", "LD_PRELOAD": str(shim_for(mpi.mpicc))}
    assert outcome([program], environ) == ["0"]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_children_of_ranks_are_no_tasks(mpi, build, environ, run_dir, carrier):
    launch = launch_on_nodes(mpi, 2, build("life"), "children")
    environ |= {"COSCHED_STATUS": carrier}
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b") as b:
        assert outcome(launch, environ) == all_around(2)
        for node in (a, b):
            assert len(node.jobs["wrapped"].tasks) == 1
            assert node.jobs["wrapped"].codes() == [CMDOUT]


@pytest.mark.parametrize("how", ["unfinished", "crash"])
def test_run_without_finalize_leaves_nothing_behind(mpi, build, run_dir, how):
    """The run has its usual exit status, and the daemons end."""
    words = ("-n", "2", build("life"), how)
    environ = {"COSCHED_RUN_DIR": str(run_dir), **CROWDED}
    plain = run_ours(mpi, environ, "--no-shim", *words)
    for carrier in ("prefix", "shadow"):
        run = run_ours(mpi, environ, "--carrier", carrier, *words)
        assert run.returncode == plain.returncode, (carrier, run.stderr)
        assert "FAIL" not in run.stderr
    socket = NodePaths(run_dir, os.uname().nodename).register_socket
    assert eventually(lambda: not socket.exists())
    if how == "crash":
        assert plain.returncode != 0
