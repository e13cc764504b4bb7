"""Processes that take all the CPU they can get, and what they got."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence

import psutil

TIME_S = 2.0


@contextlib.contextmanager
def spinner(cpu: int = 0) -> Iterator[int]:
    """A process that spins on one CPU; its pid."""
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, {cpu})
        while True:
            pass
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def shares(pids: Sequence[int]) -> list[float]:
    """The part of one CPU that each process gets during the next seconds."""
    began, before = time.monotonic(), [_used_s(pid) for pid in pids]
    time.sleep(TIME_S)
    after = [_used_s(pid) for pid in pids]
    took = time.monotonic() - began
    return [(b - a) / took for a, b in zip(before, after, strict=True)]


def _used_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
