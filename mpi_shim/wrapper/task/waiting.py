"""How a blocking call waits: a loop of tests with pauses between them.

While the job is scheduled the loop tests without rest, as MPI does inside a blocking
call; only a long wait naps while another job wants the CPU. While the job is not
scheduled, the task sleeps about a millisecond between two tests, and wakes at once when
it gets scheduled: the paper's "very brief period" in which an unscheduled task looks for
messages costs no share of a CPU. COSCHED_WAIT lets a task that may run yield, or spin for
a while and then sleep, always or where its CPU is shared. A task that is not registered
and whose COSCHED_WAIT is spin lets MPI do the waiting.

Limit: a long wait of a scheduled task holds and releases the interpreter lock once a
test, where MPI would wait without it; other threads of the program still run, at the
interpreter's switching rate.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from mpi_shim.wrapper.task.link import task
from mpi_shim.wrapper.task.sharing import sharing

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
        self._since_ns = time.monotonic_ns()

    def pass_time(self) -> None:
        """Sleeps if the task is unscheduled, else does as COSCHED_WAIT says."""
        self._tests += 1
        if task.linger(self._spell):
            return
        kind = task.wait.kind
        if kind == "yield":
            os.sched_yield()
        elif kind == "block" or (kind == "auto" and self._shares()):
            self._spin_then_nap()
        elif self._tests > TESTS_BEFORE_YIELD:
            os.sched_yield()

    def end(self) -> None:
        """After the last test: accounts for the time that passed."""
        task.count_waited(self._since_ns, time.monotonic_ns())

    def _shares(self) -> bool:
        return task.is_contended() if task.is_attended() else sharing.is_shared(self._tests)

    def _spin_then_nap(self) -> None:
        """Spin first: a message under way comes sooner than a sleeper wakes up."""
        if time.monotonic_ns() - self._since_ns >= task.wait.spin_ns:
            time.sleep(NAP_S)
            task.count_nap()


def wait(poll: Callable[[], T], block: Callable[[], T]) -> T:
    """The first true result of ``poll``, or ``block()`` where nothing is to be gained."""
    if not task.waits:
        return block()
    result = poll()
    if result:
        return result
    turns = Turns()
    try:
        while not result:
            turns.pass_time()
            result = poll()
    finally:
        turns.end()
    return result


def look(poll: Callable[[], T]) -> T:
    """``poll()`` once, for a call that does not block."""
    result = poll()
    if not result:
        task.looked()
    return result
