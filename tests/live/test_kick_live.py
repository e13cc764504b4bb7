"""Kicks on a real CPU: they interrupt a computing process, which then continues."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosched.linux.native.kick import PERIOD_NS, ROUNDS, Kicker
from tests.live.conftest import eventually

pytestmark = pytest.mark.live


@pytest.fixture
def kicker() -> Iterator[Kicker]:
    kicker = Kicker("proportional")
    yield kicker
    kicker.close()


def wakeups(tid: int) -> int:
    lines = Path(f"/proc/self/task/{tid}/status").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if x.startswith("voluntary_ctxt"))


def is_silent(tid: int) -> bool:
    """Whether the thread sleeps through the time of many rounds."""
    before = wakeups(tid)
    time.sleep(20 * PERIOD_NS / 1e9)
    return wakeups(tid) == before


def threads() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}


def test_kick_wakes_for_its_rounds_only(kicker: Kicker) -> None:
    cpu = min(os.sched_getaffinity(0))
    before = threads()
    kicker.kick({cpu})
    (thread,) = threads() - before
    assert os.sched_getscheduler(thread) == os.SCHED_FIFO
    assert os.sched_getaffinity(thread) == {cpu}
    eventually(lambda: wakeups(thread) >= ROUNDS["proportional"], "all rounds")
    eventually(lambda: is_silent(thread), "the end of the kick")


def test_threads_end_with_the_kicker(kicker: Kicker) -> None:
    before = threads()
    kicker.kick(os.sched_getaffinity(0))
    assert len(threads() - before) == len(os.sched_getaffinity(0))
    kicker.close()
    assert threads() == before


def test_forbidden_cpu_is_left_out(
    kicker: Kicker, caplog: pytest.LogCaptureFixture
) -> None:
    before = threads()
    kicker.kick({1000})
    kicker.kick({1000})
    assert threads() == before
    assert caplog.text.count("CPU 1000: no kicks") == 1
