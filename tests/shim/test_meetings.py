"""A rank of an unscheduled job sleeps in each kind of wait, and traps the message or the
arrival of a scheduled peer, under shadow."""

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
#: Ways to poll for a message.
POLLS = ("status", "some")


@pytest.fixture
def meet(mpi, shim_for, run_dir, job_environ, build):
    """Runs rank 0 on node a and rank 1 on node b, and returns both jobs."""
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
    """Whether the library lets the shim act in this wait of two ranks of one node."""
    if mpi.family is Family.OPENMPI or mode in (*MESSAGES, "iallreduce"):
        return True
    # MPICH 5 does not yield in collectives over shared memory; MPICH 4 never yields.
    return mode in ("fence", "bcast") and not mpi.version.startswith("4")


@pytest.mark.parametrize("mode", MESSAGES + MEETINGS)
def test_message_from_scheduled_peer_is_trapped(mpi, meet, run_dir, mode):
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
def test_polled_message_is_trapped(mpi, meet, run_dir, mode):
    if mode == "some" and not (mpi.family is Family.MPICH and mpi.version.startswith("5")):
        pytest.skip(f"{mpi.family.title} {mpi.version} has no MPI_Request_get_status_some")
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b", scheduled=False) as b:
        _, receiver = meet(mode, a, b)
        counters = receiver.counters(1)
    # Most of them: some may arrive while the receiver has no CPU.
    assert counters["trapped"] > int(ROUNDS) // 2


@pytest.mark.parametrize("mode", ["recv", "wait", "allreduce"])
def test_message_from_unscheduled_peer_is_not_trapped(meet, run_dir, mode):
    with (
        FakeNode(run_dir, "a", scheduled=False) as a,
        FakeNode(run_dir, "b", scheduled=False) as b,
    ):
        sender, receiver = meet(mode, a, b, COSCHED_STATUS="shadow")
        assert sender.counters(0)["told"] == 1
        assert receiver.codes() == [CMDOUT]


@pytest.mark.parametrize("mode", ["recv", "bcast", "fence", "iallreduce"])
def test_scheduled_task_naps_under_block(mpi, meet, run_dir, mode):
    if not sleeps_in(mpi, mode):
        pytest.skip(f"{mpi.family.title} {mpi.version} does not let the shim act")
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b") as b:
        _, job = meet(mode, a, b, COSCHED_WAIT="block:20000")
        counters = job.counters(1)
    assert counters["naps"] > 20


def test_waits_for_library_messages_are_counted_apart(
    mpi, shim_for, run_dir, job_environ, tmp_path
):
    """Otherwise the second wait would nap at once, as if it had begun with the first."""
    if mpi.family is Family.MPICH and not mpi.version.startswith("5"):
        pytest.skip(f"{mpi.family.title} {mpi.version} never lets the interposer act")
    linked = compile_library(mpi, "own", tmp_path / "libmca_own.so", "-DLIBRARY")
    launch = launch_on_nodes(mpi, 2, compile_program(mpi, "own", tmp_path, *linked))
    environ = {**job_environ, **CROWDED, "SHIM": str(shim_for(mpi.mpicc))}
    with FakeNode(run_dir, "a"), FakeNode(run_dir, "b") as b:
        lines = outcome(launch, {**environ, "COSCHED_STATUS": "none"})
        assert lines == ["0: received", "1: received"]
        # Most of twenty: some messages may arrive while the receiver has no CPU.
        assert b.jobs["wrapped"].counters(1)["waits"] > 15
