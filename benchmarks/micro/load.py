"""Starts a node's daemons and tasks without MPI, for the micro-benchmarks."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.node.lifetime.start import NodeOptions, start_node
from cosched.node.lifetime.stop import stop_node
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths
from cosched.shm._native import ffi, lib

START_S = 60.0
#: How long ``send`` computes between two messages, and waits for each.
MESSAGES_S = 0.002


@contextmanager
def new_node(options: NodeOptions, folder: str = "/tmp") -> Iterator[NodePaths]:
    """Runs the daemons of this node, in a run directory of their own below ``folder``."""
    with tempfile.TemporaryDirectory(prefix="cosched-b-", dir=folder) as directory:
        paths = NodePaths(Path(directory), os.uname().nodename)
        start_node(paths, options)
        try:
            yield paths
        finally:
            stop_node(paths)


def register(paths: NodePaths, job: str, rank: int) -> object:
    """Registers this process as a task of ``job``."""
    link = ffi.new("struct cosched_link *")
    name = ffi.new("char[]", job.encode())
    part = ffi.new("struct cosched_registration *")
    part.job, part.rank, part.world, part.carrier = name, rank, 2, 1
    error = lib.cosched_attach(link, str(paths.register_socket).encode(), part, 5000)
    if error:
        sys.exit(f"{job}: {ffi.string(link.reason).decode()}")
    return link


def spin(paths: NodePaths, job: str, cpu: int) -> None:
    """Runs a task that computes for ever."""
    os.sched_setaffinity(0, {cpu})
    register(paths, job, 0)
    while True:
        pass


def idle(paths: NodePaths, job: str, cpu: int) -> None:
    """Runs a task that only waits; it gets its turns nevertheless."""
    os.sched_setaffinity(0, {cpu})
    register(paths, job, 0)
    while True:
        signal.pause()


def send(paths: NodePaths, job: str, cpu: int) -> None:
    """Runs a task that waits half of the time, for messages of scheduled senders."""
    os.sched_setaffinity(0, {cpu})
    link = register(paths, job, 0)
    wait = ffi.new("struct cosched_wait *")
    while True:
        wait.since_ns = time.monotonic_ns()
        while lib.cosched_sleep_unscheduled(link):
            lib.cosched_arrived(link, 1)
        time.sleep(MESSAGES_S)
        lib.cosched_count_wait(link, wait)
        until_ns = time.thread_time_ns() + round(MESSAGES_S * 1e9)
        while time.thread_time_ns() < until_ns:
            pass


@contextmanager
def child(function: Callable[..., None], *arguments: object) -> Iterator[None]:
    """Runs the function in a child, which is killed at the end of the block."""
    pid = os.fork()
    if pid == 0:
        try:
            function(*arguments)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@contextmanager
def jobs_of(
    function: Callable[[NodePaths, str, int], None], paths: NodePaths, count: int, cpu: int
) -> Iterator[None]:
    """Runs ``count`` jobs of one task each on a CPU."""
    with ExitStack() as ends:
        for number in range(count):
            name = f"{function.__name__}{number}"
            ends.enter_context(child(function, paths, name, cpu))
        yield


def await_tasks(paths: NodePaths, count: int) -> None:
    """Waits until ``count`` tasks have registered. Raises CoschedError if they do not."""
    deadline = time.monotonic() + START_S
    while sum(len(job["tasks"]) for job in request(paths, "status")["jobs"]) < count:
        if time.monotonic() > deadline:
            raise CoschedError(f"the jobs did not register within {START_S:g} s")
        time.sleep(0.05)
