"""Processes that take all the CPU they can get, and what they got."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence

import psutil
import pytest

TIME_S = 2.0
TRIES = 5


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


def check_shares(pids: Sequence[int], right: Callable[..., bool]) -> None:
    """Fail unless the parts of a CPU that processes get are right.

    Measured again a few times: the host may take the machine's CPUs away meanwhile.
    """
    seen = []
    for _ in range(TRIES):
        seen.append(_shares(pids))
        if right(*seen[-1]):
            return
    pytest.fail(f"shares of the CPU: {seen}")


def _shares(pids: Sequence[int]) -> list[float]:
    began, before = time.monotonic(), [_used_s(pid) for pid in pids]
    time.sleep(TIME_S)
    after = [_used_s(pid) for pid in pids]
    took = time.monotonic() - began
    return [(b - a) / took for a, b in zip(before, after, strict=True)]


def _used_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
