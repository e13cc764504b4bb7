"""How a blocking call waits: a loop of tests with pauses between them.

While the job is scheduled the loop tests without rest, as MPI does inside a blocking
call; only a long wait naps while another job wants the CPU. While the job is not
scheduled, the task sleeps about a millisecond between two tests, and wakes at once when
it gets scheduled: the paper's "very brief period" in which an unscheduled task looks for
messages costs no share of a CPU. COSCHED_WAIT lets a task that may run yield, or spin for
a while and then sleep, for the good of whoever shares its CPU. A task that is not
registered and whose COSCHED_WAIT is spin lets MPI do the waiting.

Limit: a long wait of a scheduled task holds and releases the interpreter lock once a
test, where MPI would wait without it; other threads of the program still run, at the
interpreter's switching rate.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from mpi_shim.task import task

T = TypeVar("T")

# After so many tests (some 20 us) offer the CPU to whoever shares it between two tests,
# as MPICH does in its blocking calls.
TESTS_BEFORE_YIELD = 50

# The kernel adds its timer slack, 50 us for most: shorter would not be.
NAP_S = 20e-6


class Turns:
    """One wait: what to do between two tests that found nothing."""

    def __init__(self) -> None:
        self._spell = task.new_wait()
        self._tests = 0
        self._since_ns = 0

    def pass_time(self) -> None:
        """Sleeps if the task is unscheduled, else does as COSCHED_WAIT says."""
        if task.linger(self._spell):
            return
        kind = task.wait.kind
        if kind == "spin":
            self._tests += 1
            if self._tests > TESTS_BEFORE_YIELD:
                os.sched_yield()
        elif kind == "yield":
            os.sched_yield()
        elif self._has_spun():
            time.sleep(NAP_S)
            task.count_nap()

    def _has_spun(self) -> bool:
        """Spin first: a message under way comes sooner than a sleeper wakes up."""
        now_ns = time.monotonic_ns()
        self._since_ns = self._since_ns or now_ns
        return now_ns - self._since_ns >= task.wait.spin_ns


def wait(poll: Callable[[], T], block: Callable[[], T]) -> T:
    """The first true result of ``poll``, or ``block()`` where nothing is to be gained."""
    if not task.waits:
        return block()
    result = poll()
    if result:
        return result
    turns = Turns()
    while not result:
        turns.pass_time()
        result = poll()
    return result


def look(poll: Callable[[], T]) -> T:
    """``poll()`` once, for a call that does not block."""
    result = poll()
    if not result:
        task.looked()
    return result
