"""A task's life under the interposer, with a fake daemon: an unchanged mpi4py program is
registered, traps messages, sleeps while it is unscheduled, and deregisters."""

from __future__ import annotations

import pytest

from cosched.shm._native import lib
from tests.fakes import FakeNode
from tests.wrapper.per_rank import NODES

pytestmark = pytest.mark.mpi_job

PROGRAM = ("-m", "tests.wrapper.task_program")
CMDOUT, CMDSCH = lib.COSCHED_CMDOUT, lib.COSCHED_CMDSCH


@pytest.fixture
def run(site, shim_for, job_environ):
    """Runs the task program at 2 ranks, the interposer preloaded."""
    shim = shim_for(site.mpiexec.parent / "mpicc")

    def preloaded(*arguments, **environ):
        environment = {**job_environ, "LD_PRELOAD": str(shim), **environ}
        result = site.run(2, *PROGRAM, *arguments, environ=environment)
        assert result.returncode == 0, result.stdout + result.stderr

    return preloaded


def test_messages_from_scheduled_peer_are_trapped(run, run_dir):
    with FakeNode(run_dir, "a") as a, FakeNode(run_dir, "b", scheduled=False) as b:
        run("trap", "6", **{NODES: "a,b"})
        job = b.jobs["wrapped"]
        sender, receiver = a.jobs["wrapped"].counters(0), job.counters(1)
        (task,) = job.tasks
        assert (task.rank, task.world, task.carrier) == (1, 2, lib.COSCHED_CARRIER_PREFIX)
        assert job.codes() == [CMDSCH, CMDOUT]
        assert a.jobs["wrapped"].codes() == [CMDOUT]
    assert sender["trapped"] == 0
    assert receiver["trapped"] > 0
    assert receiver["posted"] == 1  # once an epoch
    assert receiver["foreign"] == 0


def test_messages_from_unscheduled_peer_are_not_trapped(run, run_dir):
    with (
        FakeNode(run_dir, "a", scheduled=False) as a,
        FakeNode(run_dir, "b", scheduled=False) as b,
    ):
        run("trap", "3", **{NODES: "a,b"})
        assert a.jobs["wrapped"].codes() == b.jobs["wrapped"].codes() == [CMDOUT]


def test_unscheduled_task_sleeps_in_wait(run, run_dir):
    with FakeNode(run_dir, "a"), FakeNode(run_dir, "b", scheduled=False) as b:
        run("late", "0.5", **{NODES: "a,b"})
        counters = b.jobs["wrapped"].counters(1)
    assert counters["pauses"] > 10
    assert counters["paused_ns"] > 100_000_000


def test_unscheduled_busy_task_never_sleeps(run, run_dir):
    with FakeNode(run_dir, "a"), FakeNode(run_dir, "b", scheduled=False) as b:
        run("late", "0.5", **{NODES: "a,b"}, COSCHED_WAIT="busy")
        counters = b.jobs["wrapped"].counters(1)
    assert (counters["pauses"], counters["naps"]) == (0, 0)
    assert counters["waited_ns"] > 100_000_000


def test_busy_task_traps_messages_that_lay_unread(run, run_dir):
    with FakeNode(run_dir, "a"), FakeNode(run_dir, "b", scheduled=False) as b:
        run("trap", "6", **{NODES: "a,b"}, COSCHED_WAIT="busy")
        counters = b.jobs["wrapped"].counters(1)
    assert counters["stale"] == 0
    assert counters["trapped"] == counters["received"] > 0


@pytest.mark.parametrize(("wait", "sleeps"), [("block:20000", True), ("spin", False)])
def test_scheduled_task_sleeps_by_the_wait_policy(run, run_dir, wait, sleeps):
    with FakeNode(run_dir, "a") as node:
        run("late", "0.5", COSCHED_WAIT=wait)
        counters = node.jobs["wrapped"].counters(1)
    assert counters["pauses"] == 0
    assert (counters["naps"] > 50) == sleeps


def test_dead_daemon_does_not_stop_tasks(run, run_dir):
    with FakeNode(run_dir, "a", scheduled=False) as node:
        node.beating = False
        run("late", "2.5")
        counters = node.jobs["wrapped"].counters(1)
    assert counters["paused_ns"] < 2_300_000_000


def test_program_without_daemon_runs(run):
    run("late", "0.1")
