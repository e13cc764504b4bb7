"""Provides a run directory, a node that is always taken down, and stand-in tasks."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from cosched.core.node.settings import Settings
from cosched.linux.pidfd import open_pidfd
from cosched.linux.processes.signals import send_by_pidfd
from cosched.node.lifetime.start import NodeOptions, start_node
from cosched.node.lifetime.stop import stop_node
from cosched.node.sockets.client import request
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import NodePaths
from tests.tools.node_forks import NodeForks
from tests.tools.waiting import pauses

TOOLS = Path(__file__).parent.parent / "tools"
DEADLINE_S = 60.0
#: As many files that compute stand between two that wait, and as many files of Slurm
#: between two that need its site.
BETWEEN_WAITING, BETWEEN_SITES = 1, 3


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Puts files with more tests first, so that none of them ends long after the others.
    Spreads those of Slurm, which mostly wait, among the others, which compute.

    The files that need the machine's only site of Slurm users are far from each other.
    """
    tests = Counter(item.path for item in items)
    files = sorted(tests, key=tests.__getitem__, reverse=True)
    waiting = [file for file in files if file.parent.name == "slurm"]
    sites = [file for file in files if file not in waiting and "slurm" in file.name]
    spread(waiting, sites, BETWEEN_SITES)
    order = [file for file in files if file not in waiting]
    spread(order, waiting, BETWEEN_WAITING)
    places = {file: place for place, file in enumerate(order)}
    items.sort(key=lambda item: places[item.path])


def spread(files, others, between):
    """Inserts others into files, with so many between two of them as long as there are."""
    for place, file in enumerate(others):
        files.insert(place * (between + 1), file)


def eventually(condition, what, within_s=DEADLINE_S):
    """Polls a condition that gives no event to wait for; fails with ``what``."""
    deadline = time.monotonic() + within_s
    between = pauses()
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(next(between))
    return result


class FakeTask:
    """A registered process that follows commands; see tests/tools/task.py."""

    def __init__(
        self,
        node,
        job,
        rank=0,
        cpu=0,
        *,
        memory=0,
        answered=True,
        through=(),
        uid=0,
        limits=0,
    ):
        """``memory``: bytes that it declares; ``answered``: its registration is awaited;
        ``through``: a command that becomes the task; ``uid``: its user; ``limits``: the
        resources that limit it."""
        self.process = subprocess.Popen(
            [
                *through,
                *("taskset", "-c", str(cpu), sys.executable),
                str(TOOLS / "task.py"),
                str(node.paths.register_socket),
                job,
                str(rank),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "COSCHED_MEMORY": str(memory),
                "TASK_UID": str(uid),
                "TASK_LIMITS": str(limits),
            },
        )
        self.pid = self.process.pid
        if answered:
            self.await_answer()

    def await_answer(self):
        error, _, self.reason = self.process.stdout.readline().strip().partition(" ")
        self.error = int(error)
        return self.error

    def ask(self, command):
        self.tell(command)
        return self.answer()

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().strip()

    @property
    def scheduled(self):
        return self.ask("status").split()[1] == "1"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class LiveNode:
    """One node's daemons in a run directory of the test."""

    def __init__(self, run_dir, name="node1"):
        self.paths = NodePaths(run_dir, name)
        self.tasks = []
        self._forks = NodeForks()

    def up(
        self,
        *,
        class_scheduler="auto",
        mode="proportional",
        private=False,
        options=None,
        start=start_node,
        by=None,
        **settings,
    ):
        """``options``: further ones of NodeOptions; ``by``: starts the daemons; None: as
        forks of this process."""
        settings = {"align": "off", "slice": "10s", "gmet": "1ms", **settings}
        return start(
            self.paths,
            NodeOptions(
                Settings().changed(settings),
                class_scheduler,
                mode,
                private,
                verbose=True,
                **(options or {}),
            ),
            by or self._forks,
        )

    def down(self):
        return stop_node(self.paths)

    def task(self, job, rank=0, cpu=0, **more):
        task = FakeTask(self, job, rank, cpu, **more)
        self.tasks.append(task)
        return task

    def status(self):
        return request(self.paths, "status")

    def job(self, name):
        return next((j for j in self.status()["jobs"] if j["name"] == name), None)

    @property
    def scheduler_pid(self):
        return lock_holder(self.paths.scheduler_lock)

    @property
    def timer_pid(self):
        return lock_holder(self.paths.timer_lock)

    @property
    def spare_pid(self):
        return lock_holder(self.paths.spare_lock)

    def remains(self):
        """Returns the files and groups that this node still has in the kernel."""
        tag = self.paths.tag
        return [
            *Path("/dev/shm").glob(f"cosched-{tag}-*"),
            *Path("/sys/fs/cgroup").glob(f"cosched-{tag}"),
            *Path("/sys/fs/cgroup").glob(f"*/cosched-{tag}"),
            *self.paths.bells.glob("*"),
        ]

    def kill_all(self):
        """Kills both daemons and the process in reserve, so that no guardian is left."""
        pids = [self.scheduler_pid, self.timer_pid, self.spare_pid]
        os.kill(self.scheduler_pid, signal.SIGSTOP)  # otherwise it would replace the others
        os.kill(self.timer_pid, signal.SIGSTOP)
        for pid in reversed(pids):
            os.kill(pid, signal.SIGKILL)

    def close(self):
        for task in self.tasks:
            task.end()
        for pid in (self.scheduler_pid, self.timer_pid):
            # A guardian without jobs ends by itself.
            pidfd = None if pid is None else open_pidfd(pid)
            if pidfd is not None:
                send_by_pidfd(pidfd, signal.SIGKILL)
                assert select.select([pidfd], [], [], DEADLINE_S)[0]
                os.close(pidfd)
        stop_node(self.paths)
        self._forks.close(DEADLINE_S)
        for directory in self.remains():
            if directory.is_dir():
                for group in [*directory.glob("*/"), directory]:
                    group.rmdir()


@pytest.fixture
def run_dir():
    # Short, since socket paths have at most 107 bytes.
    path = Path(tempfile.mkdtemp(prefix="cosched-t-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def node(run_dir):
    live = LiveNode(run_dir)
    yield live
    live.close()


@pytest.fixture(autouse=True)
def need_root(request):
    if request.node.get_closest_marker("live") and os.geteuid() != 0:
        pytest.skip("needs root")
