"""Kicks: the kernel looks at new shares now, not when it next has a reason to.

A write to a weight changes what the kernel will choose, not when it chooses. Where all
tasks compute, that is at the tick (4 ms at 250 Hz), and it may then choose wrongly from our
point of view: an unscheduled class that has just had its turn of a whole tick, at 1%, owes
the others 4 ms of service and becomes eligible only when they have had them, a tick each.
Without kicks a computing job runs 4 ms after its switch in the median and 8 ms at worst.

Whenever a real-time thread wakes up on a CPU and goes back to sleep the kernel chooses
anew among the ordinary tasks there. A kick is a few such wake-ups: the first at once, the
others while debts are being paid. Under quotas (strict) unscheduled classes are off the
queue unless their turn is on just then; a few are enough.

Kernels have a finer clock for this (the scheduler feature HRTICK), off by default.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from typing import Any

from cosched.core.units import NS_PER_MS
from cosched.linux._kick import ffi, lib

log = logging.getLogger(__name__)

#: Wake-ups of one kick. A debt is at most a tick and a slice of EEVDF's: 4 to 5.4 ms.
ROUNDS = {"proportional": 10, "strict": 4}
PERIOD_NS = NS_PER_MS


class Kicker:
    """Kicks CPUs, each by a thread of its own that is started at the first kick.

    Without the right to SCHED_FIFO there are no kicks: switches then take a tick or two.
    """

    def __init__(self, mode: str) -> None:
        self._rounds = ROUNDS[mode]
        self._threads: dict[int, Any] = {}

    def kick(self, cpus: Iterable[int]) -> None:
        """Makes the kernel choose anew on these CPUs; does not wait for it."""
        for cpu in cpus:
            thread = self._threads.get(cpu)
            if thread is None:
                thread = self._threads[cpu] = self._start(cpu)
            if thread:
                lib.cosched_kicker_kick(thread)

    def close(self) -> None:
        """Ends the threads."""
        for thread in self._threads.values():
            if thread:
                lib.cosched_kicker_stop(thread)
        self._threads.clear()

    def _start(self, cpu: int) -> Any:
        """The CPU's thread; NULL if it cannot be, which is tried only once."""
        thread = ffi.new("struct cosched_kicker **")
        error = -lib.cosched_kicker_start(thread, cpu, self._rounds, PERIOD_NS)
        if error and error != errno.EPERM:
            log.warning("CPU %d: no kicks: %s", cpu, os.strerror(error))
        return thread[0]
