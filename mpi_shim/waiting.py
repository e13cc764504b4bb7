"""How a blocking call waits: a loop of tests with pauses between them.

While the job is scheduled the loop tests without rest, as MPI does inside a blocking
call; only a long wait naps while another job wants the CPU. While the job is not
scheduled, the task sleeps about a millisecond between two tests, and wakes at once when
it gets scheduled: the paper's "very brief period" in which an unscheduled task looks for
messages costs no share of a CPU. A task that is not registered lets MPI do the waiting.

Limit: a long wait of a scheduled task holds and releases the interpreter lock once a
test, where MPI would wait without it; other threads of the program still run, at the
interpreter's switching rate.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from mpi_shim.task import task

T = TypeVar("T")

# After so many tests (some 20 us) offer the CPU to whoever shares it between two tests,
# as MPICH does in its blocking calls.
TESTS_BEFORE_YIELD = 50


def wait(poll: Callable[[], T], block: Callable[[], T]) -> T:
    """The first true result of ``poll``, or ``block()`` where nothing is to be gained."""
    if not task.attached:
        return block()
    result = poll()
    if result:
        return result
    spell = task.new_wait()
    tests = 0
    while not result:
        tests += 1
        if not task.linger(spell) and tests > TESTS_BEFORE_YIELD:
            os.sched_yield()
        result = poll()
    return result


def look(poll: Callable[[], T]) -> T:
    """``poll()`` once, for a call that does not block."""
    result = poll()
    if not result:
        task.looked()
    return result
