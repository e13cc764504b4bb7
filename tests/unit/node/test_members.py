"""Who is a task, from the first word of a process to its last: real processes, regions and
history, a machine that is told of it; no sockets."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from cosched.core.config.values import Limits
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import TaskExited, TaskRegistered
from cosched.core.node.settings import Settings
from cosched.node import members
from cosched.node.jobs import JobTable
from cosched.node.loop import Loop
from cosched.node.members import Members, Terms
from cosched.node.records.history import HistoryWriter
from cosched.node.records.recorder import Recorder
from cosched.node.sockets.registration import Hello, RegistrationRefused
from cosched.shm._native import lib
from cosched.shm.paths import NodePaths, job_key
from cosched.shm.region import JobRegion, Request

SHADOW = lib.COSCHED_CARRIER_SHADOW
_numbers = itertools.count()


class Node:
    """The members of a node, and what its machine was told."""

    def __init__(self, tmp_path, stack):
        paths = NodePaths(tmp_path, f"members{os.getpid()}x{next(_numbers)}")
        paths.bells.mkdir(parents=True)
        self.machine = NodeScheduler(Settings())
        self.jobs = JobTable(paths)
        self.events = []
        self.recorder = Recorder(paths.node, self.machine, self.jobs)
        self.history = HistoryWriter(paths.node, self.recorder, lambda _key: None)
        loop = Loop()
        self.members = Members(
            self.machine,
            self.jobs,
            loop,
            self.history,
            self.recorder,
            Terms(private=True, limits=Limits()),
            self._feed,
            lambda: None,
        )
        stack.callback(loop.close)
        stack.callback(lambda: [self.members.forget(job) for job in self.jobs])

    def _feed(self, event):
        self.events.append(event)
        self.recorder.record(event, self.machine.handle(event))

    def come(self, pid, rank=0, *, launched=False, job="a"):
        pidfd = os.pidfd_open(pid)
        try:
            peer = SimpleNamespace(pid=pid, uid=os.geteuid(), gid=os.getegid())
            hello = Hello(job, rank, 2, SHADOW, 0, launched=launched)
            return self.members.register(peer, hello, pidfd)
        finally:
            os.close(pidfd)

    @property
    def job(self):
        return self.jobs.get(job_key(os.geteuid(), "a"))

    @property
    def pids(self):
        return set(self.job.tasks) if self.job else set()


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def node(tmp_path, stack):
    return Node(tmp_path, stack)


@pytest.fixture
def process(stack):
    """Starts a shell that has started another process; both pids."""

    def start():
        shell = subprocess.Popen(
            ["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE, text=True
        )
        stack.callback(shell.wait)
        stack.callback(shell.stdout.close)
        stack.callback(shell.kill)
        child = int(shell.stdout.readline())
        stack.callback(lambda: subprocess.run(["kill", "-9", str(child)], check=False))
        return shell.pid, child

    return start


def kinds(node):
    return [type(event) for event in node.events]


def test_a_launched_process_comes_to_mpi_as_the_same_task(node, process):
    pid, _ = process()
    slot = node.come(pid, launched=True).slot
    assert node.job.tasks[pid].launched
    assert node.come(pid).slot == slot
    assert not node.job.tasks[pid].launched
    assert kinds(node) == [TaskRegistered] * 2
    assert node.events[-1].replaces == pid
    assert len(node.machine.jobs) == 1


def test_what_it_has_started_is_sent_away_until_it_comes_to_mpi(node, process):
    shell, child = process()
    node.come(shell, launched=True)
    with pytest.raises(RegistrationRefused) as refused:
        node.come(child, launched=True)
    assert refused.value.errno == errno.EEXIST
    assert node.pids == {shell}
    node.come(child)
    assert node.pids == {child}
    assert kinds(node) == [TaskRegistered] * 2
    assert node.events[-1].replaces == shell
    assert set(node.machine.jobs[node.job.key].tasks) == {child}


def test_processes_of_one_rank_that_have_not_started_each_other_are_two_tasks(
    node, process
):
    (one, _), (two, _) = process(), process()  # two launchers, or MPI_Comm_spawn
    node.come(one, launched=True)
    node.come(two, launched=True)
    node.come(two)
    assert node.pids == {one, two}
    assert node.job.tasks[one].launched


def test_a_program_within_a_ranks_program_is_a_task_beside_it(node, process):
    shell, child = process()
    node.come(shell)
    node.come(child)
    assert node.pids == {shell, child}


@pytest.mark.parametrize("through", ["itself", "its shell"])
def test_who_is_refused_in_mpi_takes_no_turns(node, process, through, monkeypatch):
    shell, child = process()
    node.come(shell, launched=True)

    def refuse(_peer, _hello):
        raise RegistrationRefused(errno.EPERM, "by the operator")

    monkeypatch.setattr(node.members, "_check_limits", refuse)
    with pytest.raises(RegistrationRefused):
        node.come(shell if through == "itself" else child)
    assert node.job is None
    assert not node.machine.jobs
    assert kinds(node)[-1] is TaskExited


def test_what_a_process_asked_for_before_does_not_end_what_it_is_now(
    node, process, monkeypatch
):
    pid, _ = process()
    requests = [Request(lib.COSCHED_CMDOUT, node.come(pid).slot, 0)]

    def take(_region):
        taken = requests[:]
        requests.clear()
        return taken

    monkeypatch.setattr(JobRegion, "take_requests", take)
    node.come(pid, launched=True)  # after MPI_Finalize it became another program
    node.members._read_bell(node.job)
    assert node.pids == {pid}


def test_a_pid_that_is_used_again_is_another_task(node, process, monkeypatch):
    pid, _ = process()
    node.come(pid, launched=True)
    # Its end has not been read yet, and somebody else has its pid.
    monkeypatch.setattr(members, "exited", lambda _pidfd: True)
    node.come(pid, launched=True)
    assert kinds(node) == [TaskRegistered, TaskExited, TaskRegistered]


def test_the_launch_ends_with_the_last_first_arrival(node, process):
    (one, _), (two, _), (late, _) = process(), process(), process()
    node.come(one, 0, launched=True)
    node.come(one, 0)
    node.come(two, 1)
    tally = node.history._tally(node.job)
    arrived_ns = tally.in_mpi_ns
    node.come(late, 0)  # of a world that MPI_Comm_spawn made
    assert tally.in_mpi_ns == arrived_ns
    for pid in (one, two, late):
        node.members._task_left(node.job, pid)
    (record,) = node.history._records
    assert 0 < record.launch_s < record.response_s


def test_all_of_the_time_of_a_program_without_mpi_is_its_launch(node, process):
    pid, _ = process()
    node.come(pid, launched=True)
    node.members._task_left(node.job, pid)
    (record,) = node.history._records
    assert record.launch_s == record.response_s
