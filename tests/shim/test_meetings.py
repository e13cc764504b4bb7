"""Whatever call a rank waits in for another: while its job is unscheduled it sleeps there,
and it traps the scheduled peer's arrival, out of band."""

from __future__ import annotations

import pytest

from cosched.launch.family import Family
from cosched.shm._native import lib
from tests.fakes import FakeNode
from tests.shim.jobs import (
    CROWDED,
    compile_library,
    compile_program,
    launch_on_nodes,
    outcome,
)

pytestmark = [pytest.mark.mpi_job, pytest.mark.newest_mpi]

CMDOUT, CMDSCH = lib.COSCHED_CMDOUT, lib.COSCHED_CMDSCH
MESSAGES = ("recv", "any", "wait", "waitany", "probe", "mprobe", "sendrecv")
MEETINGS = ("allreduce", "barrier", "bcast", "fence", "iallreduce", "inter")
ROUNDS = "5"
#: Ways to look for a message again and again without waiting for it.
POLLS = ("status", "some")


@pytest.fixture
def meet(mpi, shim_for, run_dir, job_environ, build):
    """Runs the program, rank 0 on node a and rank 1 on node b; returns both jobs."""
    shim, program = shim_for(mpi.mpicc), build("meet")

    def run(mode, a, b, **environ):
        if mode == "fence" and mpi.version.startswith("4.0"):
            pytest.skip("MPICH 4.0's fence ends before what was put has come, shim or not")
        environ = {**job_environ, **CROWDED, "SHIM": str(shim), **environ}
        launch = launch_on_nodes(mpi, 2, program, mode, ROUNDS)
        assert outcome(launch, environ) == ["met"]
        return a.jobs["wrapped"], b.jobs["wrapped"]

    return run


def sleeps_in(mpi, mode):
    """Whether the library lets the shim in where two ranks of one node wait like that."""
    if mpi.family is Family.OPENMPI or mode in (*MESSAGES, "iallreduce"):
        return True
    # MPICH 5 meets in shared memory without a pause; MPICH 4 never makes one.
    return mode in ("fence", "bcast") and not mpi.version.startswith("4")


@pytest.mark.parametrize("mode", MESSAGES + MEETINGS)
def test_an_arrival_is_trapped(mpi, meet, run_dir, mode):
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b", scheduled=False) as b:
        sender, receiver = meet(mode, a, b, COSCHED_STATUS="shadow")
        (task,) = receiver.tasks
        assert task.carrier == lib.COSCHED_CARRIER_SHADOW
        counters = receiver.counters(1)
        assert sender.codes() == [CMDOUT]
        if sleeps_in(mpi, mode):
            assert receiver.codes() == [CMDSCH, CMDOUT]
            assert counters["posted"] == 1  # once an epoch
            assert counters["trapped"] >= 1
            assert counters["pauses"] > 10
            assert counters["waited_ns"] > 50_000_000
        if mode in ("allreduce", "barrier", "inter"):
            assert counters["trapped"] + counters["stale"] >= int(ROUNDS)
        assert sender.counters(0)["told"] == 0  # its status never changed
        assert counters["told"] == 1 or mode not in ("barrier", "allreduce", "sendrecv")


@pytest.mark.parametrize("mode", POLLS)
def test_an_arrival_is_trapped_by_who_only_asks_for_it(mpi, meet, run_dir, mode):
    if mode == "some" and not (mpi.family is Family.MPICH and mpi.version.startswith("5")):
        pytest.skip(f"{mpi.family.title} {mpi.version} has no MPI_Request_get_status_some")
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b", scheduled=False) as b:
        _, receiver = meet(mode, a, b)
        counters = receiver.counters(1)
    # All of them, but for what came while the receiver was kept from its CPU.
    assert counters["trapped"] > int(ROUNDS) // 2


@pytest.mark.parametrize("mode", ["recv", "wait", "allreduce"])
def test_of_an_unscheduled_peer_nothing_is(meet, run_dir, mode):
    with (
        FakeNode(run_dir, "a", scheduled=False) as a,
        FakeNode(run_dir, "b", scheduled=False) as b,
    ):
        sender, receiver = meet(mode, a, b, COSCHED_STATUS="shadow")
        assert sender.counters(0)["told"] == 1
        assert receiver.codes() == [CMDOUT]


@pytest.mark.parametrize("mode", ["recv", "bcast", "fence", "iallreduce"])
def test_a_task_that_may_run_leaves_its_cpu(mpi, meet, run_dir, mode):
    if not sleeps_in(mpi, mode):
        pytest.skip(f"{mpi.family.title} {mpi.version} does not let the shim in")
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b") as b:
        _, job = meet(mode, a, b, COSCHED_WAIT="block:20000")
        counters = job.counters(1)
    assert counters["naps"] > 20


def test_waits_for_the_librarys_own_messages_are_told_apart(
    mpi, shim_for, run_dir, job_environ, tmp_path
):
    """Else the second one would nap at once, as if it had lasted since the first began."""
    if mpi.family is Family.MPICH and not mpi.version.startswith("5"):
        pytest.skip(f"{mpi.family.title} {mpi.version} never lets the interposer in")
    linked = compile_library(mpi, "own", tmp_path / "libmca_own.so", "-DLIBRARY")
    launch = launch_on_nodes(mpi, 2, compile_program(mpi, "own", tmp_path, *linked))
    environ = {**job_environ, **CROWDED, "SHIM": str(shim_for(mpi.mpicc))}
    with FakeNode(run_dir, "a"), FakeNode(run_dir, "b") as b:
        lines = outcome(launch, {**environ, "COSCHED_STATUS": "none"})
        assert lines == ["0: received", "1: received"]
        # Of twenty, but for what came while the receiver was kept from its CPU.
        assert b.jobs["wrapped"].counters(1)["waits"] > 15
