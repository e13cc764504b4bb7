"""Checks jobs before MPI_Init: a rank is a task from its launch on."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from cosched.node.sockets.client import request
from tests.fakes import eventually

PATIENCE_S = 240


@pytest.fixture
def jobs_dir(served):
    return served.run_dir


@pytest.fixture
def counted(served):
    """Returns a function: how much a counter has grown since the test began."""
    before = request(served, "status")["counters"]

    def grown(name):
        return request(served, "status")["counters"].get(name, 0) - before.get(name, 0)

    return grown


@pytest.fixture
def door(tmp_path):
    """A FIFO: a program that opens it to write waits until ``open_door``."""
    path = tmp_path / "door"
    os.mkfifo(path)
    return path


def open_door(path):
    with path.open("w"):
        pass


def tasks(here):
    """Returns the tasks of the only job on the node."""
    jobs = request(here, "status")["jobs"]
    assert len(jobs) <= 1
    return jobs[0]["tasks"] if jobs else []


@contextmanager
def shell(start_cosched_run, here, mpi, script):
    """Starts a rank with ``script``; yields the job and its only task, launched."""
    words = ("--mpi", str(mpi.mpiexec), "--job", "mine", "-n", "1")
    job = start_cosched_run(*words, "sh", "-c", script)
    try:
        assert eventually(here.control_socket.exists)
        assert eventually(lambda: tasks(here))
        (launched,) = tasks(here)
        yield job, launched
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(PATIENCE_S)


def test_rank_is_a_task_before_mpi_init(start_cosched_run, here, mpi, task, door):
    script = f"read line < {door}; exec {task} wait"
    with shell(start_cosched_run, here, mpi, script) as (job, launched):
        assert (launched["rank"], launched["launched"]) == (0, True)
        (state,) = request(here, "status")["jobs"]
        assert state["scheduled"]
        if request(here, "status")["class_scheduler"]["name"].startswith("cgroup"):
            assert "0.mine" in Path(f"/proc/{launched['pid']}/cgroup").read_text()
        open_door(door)
        assert int(job.stdout.readline()) == launched["pid"]
        (registered,) = tasks(here)
    assert registered["pid"] == launched["pid"]
    assert (registered["rank"], registered["world"]) == (0, 1)
    assert not registered["launched"]


def test_shell_that_started_a_rank_is_not_a_task(start_cosched_run, here, mpi, task, door):
    script = f"read line < {door}; {task} wait; true"
    with shell(start_cosched_run, here, mpi, script) as (job, launched):
        open_door(door)
        pid = int(job.stdout.readline())
        (registered,) = tasks(here)
    assert pid != launched["pid"]
    assert registered["pid"] == pid
    assert not registered["launched"]


def test_child_of_a_rank_is_not_a_task(start_cosched_run, here, mpi, task, door):
    # cat waits at the door: another process of the same rank.
    script = f"cat {door}; exec {task} wait"
    with shell(start_cosched_run, here, mpi, script) as (job, launched):
        children = Path(f"/proc/{launched['pid']}/task/{launched['pid']}/children")
        assert eventually(lambda: children.read_text().split())
        (only,) = tasks(here)
        assert only["pid"] == launched["pid"]
        open_door(door)
        assert int(job.stdout.readline()) == launched["pid"]


def test_ranks_without_mpi_end_normally(cosched_run, any_mpi):
    done = cosched_run("-n", "2", "sh", "-c", "echo here; exit 3")
    assert done.stdout == "here\n" * 2
    assert done.returncode == 3


@pytest.mark.parametrize(("register", "again"), [("start", 2), ("init", 0)])
def test_only_ranks_register(start_cosched_run, here, counted, task, register, again):
    """Launchers and their servers also have the job's variables. A launcher begins the job,
    but it is no task."""
    job = start_cosched_run(
        "--register", register, "--job", "mine", "-n", "2", task, "wait"
    )
    try:
        pids = {int(job.stdout.readline()) for _ in range(2)}
        assert {found["pid"] for found in tasks(here)} == pids
        new_jobs, new_tasks = counted("reg_new_job"), counted("reg_new_task")
        known_tasks = counted("reg_again") + counted("reg_moved")
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(PATIENCE_S)
    assert new_jobs == 1
    assert new_tasks == (2 if register == "start" else 1)
    assert known_tasks == again


# -- launchers -------------------------------------------------------------------------

LAUNCHER = """#!/bin/sh
case "$*" in *--version*) exec {mpiexec} "$@" ;; esac
{wait}
exec {mpiexec} "$@"
"""
BUSY = "until [ -e {door} ]; do :; done"
IDLE = "until [ -e {door} ]; do sleep 0.05; done"


def jobs(here):
    """Returns the jobs on the node; none without a daemon."""
    return request(here, "status")["jobs"] if here.control_socket.exists() else []


@contextmanager
def waiting_launcher(start_cosched_run, folder, mpi, task, wait):
    """Starts a job whose launcher waits; yields the job and its door, a file that lets
    the launcher go on."""
    door, places = folder / "open", folder / "bin"
    places.mkdir()
    texts = {
        "mpiexec": LAUNCHER.format(mpiexec=mpi.mpiexec, wait=wait.format(door=door)),
        "mpicc": f'#!/bin/sh\nexec {mpi.mpicc} "$@"\n',
    }
    for name, text in texts.items():
        (places / name).write_text(text)
        (places / name).chmod(0o755)
    words = [str(places / "mpiexec"), *mpi.launch("-n", "1", task, "wait")[1:]]
    job = start_cosched_run("--job", "mine", "--", *words)
    try:
        yield job, door
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(PATIENCE_S)


def group_of(pid):
    return Path(f"/proc/{pid}/cgroup").read_text()


def test_launcher_begins_its_job_and_has_its_class(
    start_cosched_run, here, counted, mpi, task, tmp_path
):
    with waiting_launcher(start_cosched_run, tmp_path, mpi, task, BUSY) as (job, door):
        assert eventually(lambda: [one["launchers"] for one in jobs(here)])
        (starting,) = jobs(here)
        assert (starting["state"], starting["tasks"]) == ("starting", [])
        assert starting["scheduled"]
        (launcher,) = starting["launchers"]
        in_groups = "cgroup" in request(here, "status")["class_scheduler"]["name"]
        assert ("0.mine" in group_of(launcher)) == in_groups
        door.touch()
        rank = int(job.stdout.readline())
        (running,) = jobs(here)
        assert running["state"] == "on"
        assert [one["pid"] for one in running["tasks"]] == [rank]
        assert running["launchers"] == [launcher]
        assert counted("reg_new_job") == 1


@pytest.mark.parametrize(
    "wait", [BUSY, IDLE], ids=["that starts nothing", "that waits for others"]
)
def test_launcher_leaves_the_order(start_cosched_run, here, mpi, task, tmp_path, wait):
    with waiting_launcher(start_cosched_run, tmp_path, mpi, task, wait) as (job, door):
        assert eventually(lambda: [one["launchers"] for one in jobs(here)])
        ((launcher,),) = [one["launchers"] for one in jobs(here)]
        assert eventually(lambda: not jobs(here))
        assert "0.mine" not in group_of(launcher)
        door.touch()
        rank = int(job.stdout.readline())
        ((joined,),) = [one["tasks"] for one in jobs(here)]
        assert joined["pid"] == rank
