"""Tasks without MPI that keep a CPU busy, for the micro-benchmarks."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from cosched.shm._native import ffi, lib
from cosched.shm.paths import NodePaths


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


def start(function: Callable[..., None], *arguments: object) -> int:
    """Runs the function in a child; returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            function(*arguments)
        finally:
            os._exit(1)
    return pid
