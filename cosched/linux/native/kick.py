"""Kicks CPUs, so that the kernel applies new shares at once.

A write to a weight does not make the kernel choose a task. If all tasks compute, it chooses
at the next tick (4 ms at 250 Hz). That may not be the newly scheduled class: a class that
had a whole tick at 1% must first wait until the others have had their share. Without kicks
a computing job runs 4 ms after its switch in the median and 8 ms at worst.

When a real-time thread wakes up on a CPU and sleeps again, the kernel chooses again among
the ordinary tasks. A kick is a few such wake-ups: the first at once, the others while the
shares even out. Under quotas (strict) a few wake-ups are enough.

The scheduler feature HRTICK would do this with a finer clock; kernels have it off.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from typing import Any

from cosched.core.units import NS_PER_MS
from cosched.linux.native._kick import ffi, lib

log = logging.getLogger(__name__)

#: Wake-ups of one kick. A class waits at most a tick and a slice of EEVDF: 4 to 5.4 ms.
ROUNDS = {"proportional": 10, "strict": 4}
PERIOD_NS = NS_PER_MS


class Kicker:
    """Kicks CPUs. Each CPU has a thread, which starts at its first kick.

    Without the right to SCHED_FIFO there are no kicks, and switches take a tick or two.
    """

    def __init__(self, mode: str) -> None:
        self._rounds = ROUNDS[mode]
        self._threads: dict[int, Any] = {}

    def kick(self, cpus: Iterable[int]) -> None:
        """Makes the kernel choose again on these CPUs; does not wait for it."""
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
        """Starts the CPU's thread; returns NULL, for good, if that fails."""
        thread = ffi.new("struct cosched_kicker **")
        error = -lib.cosched_kicker_start(thread, cpu, self._rounds, PERIOD_NS)
        if error and error != errno.EPERM:
            log.warning("CPU %d: no kicks: %s", cpu, os.strerror(error))
        return thread[0]
