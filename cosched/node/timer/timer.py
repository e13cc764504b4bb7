"""Runs the timer daemon: it sends CMDCSW at the end of each slice, at absolute times.

Orders come through the node region. A byte on standard input means that they changed. Each
clock has a timer descriptor. Aligned slices end at multiples of the slice in
CLOCK_REALTIME, so nodes with synchronised clocks switch together. Free-running slices end
at a deadline in CLOCK_MONOTONIC, which the scheduler daemon sets. Slices without a deadline
follow each other from the timer's beginning on. That is a random time, because timers that
were started together must not agree by it. Deadlines are absolute, so lateness does not add
up; it is measured and reported. A line on standard output reports that the daemon is ready.

When standard input ends, the scheduler daemon has died. This process then becomes the
node's guardian (``guardian``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.node.messages import OrderTimer
from cosched.core.units import NS_PER_S
from cosched.node.bell import open_bell, ring
from cosched.service.loop import Loop, hold_back
from cosched.shm._native import lib
from cosched.shm.region import NodeRegion

STDIN, STDOUT = 0, 1
#: The timer counts as begun at a random time of the hour before its start.
BEGAN_WITHIN_NS = 3600 * NS_PER_S


class TimerDaemon:
    """Waits for slices to end and posts CMDCSW."""

    def __init__(
        self,
        region: NodeRegion,
        bell: Path,
        stdin: int = STDIN,
        read: Callable[[int, int], bytes] = os.read,
    ) -> None:
        self._stdin = stdin
        self._read = read
        self._region = region
        self._bell = open_bell(bell)
        self._loop = Loop()
        self._monotonic = _open_timer(realtime=False)
        self._realtime = _open_timer(realtime=True)
        self._orders = OrderTimer(idle=True, align=False, slice_ns=0, deadline_ns=0)
        self._target_ns = 0
        self._fired_ns = 0
        chance = int.from_bytes(os.urandom(8), sys.byteorder)
        self._began_ns = time.monotonic_ns() - chance % BEGAN_WITHIN_NS
        self._orphaned = False
        region.data.report.pid = os.getpid()

    def run(self) -> bool:
        """Runs until SIGTERM (returns False) or the scheduler daemon's death (True)."""
        self._loop.stop_on([signal.SIGTERM])
        self._loop.watch(self._stdin, self._read_input)
        self._loop.watch(self._monotonic, self._expired(self._monotonic, time.monotonic_ns))
        self._loop.watch(self._realtime, self._expired(self._realtime, time.time_ns))
        self._arm()
        # A scheduler daemon that has just died reads nothing; its end is read next.
        with contextlib.suppress(BrokenPipeError):
            os.write(STDOUT, b"READY\n")
        self._loop.run()
        self._loop.close()
        return self._orphaned

    def _read_input(self) -> None:
        if self._read(self._stdin, 4096):
            self._arm()
            return
        # A SIGTERM from now on is for the guardian that this process becomes.
        hold_back([signal.SIGTERM])
        self._orphaned = not self._loop.stopped
        self._loop.stop()

    def _expired(self, fd: int, clock: Callable[[], int]) -> Callable[[], None]:
        def expired() -> None:
            result = lib.cosched_timer_expired(fd)
            if result == 1:
                self._fire(clock())
            if result in (1, -errno.ECANCELED):
                self._arm()

        return expired

    def _fire(self, now_ns: int) -> None:
        late_ns = max(0, now_ns - self._target_ns)
        report = self._region.data.report
        report.ticks += 1
        report.late_last_ns = late_ns
        report.late_sum_ns += late_ns
        report.late_max_ns = max(report.late_max_ns, late_ns)
        self._fired_ns = time.monotonic_ns()
        self._region.post(lib.COSCHED_CMDCSW)
        ring(self._bell)

    def _arm(self) -> None:
        # A scheduler daemon may die while it writes orders; then the old ones stay valid.
        orders = self._orders = self._region.orders() or self._orders
        tick_ns = orders.next_tick_ns(
            time.monotonic_ns(), time.time_ns(), self._fired_ns, self._began_ns
        )
        self._target_ns = tick_ns or 0
        lib.cosched_timer_set(self._monotonic, 0 if orders.align else self._target_ns)
        lib.cosched_timer_set(self._realtime, self._target_ns if orders.align else 0)


def _open_timer(*, realtime: bool) -> int:
    fd = int(lib.cosched_timer_open(int(realtime)))
    if fd < 0:
        raise CoschedError(f"timer daemon: no timer descriptor: {os.strerror(-fd)}")
    return fd
