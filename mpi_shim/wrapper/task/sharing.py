"""Whether this thread shares its CPU with somebody now, for COSCHED_WAIT=auto.

The scheduler daemon knows of other jobs. Without it, or once it is gone, the kernel tells:
who spins without a pause and is taken off the CPU again and again (involuntary context
switches), shares it. Who sleeps is not taken off, so the verdict "shared" is kept for a
while and then found anew: a task that sleeps in its waits spins for some milliseconds a
second to find out. The C interposer judges alike (sharing.c).

Only the spinning of waits is watched: time between two waits does not count.
"""

from __future__ import annotations

import resource
import threading
import time

# How many turns of a wait go by between two looks at the clock.
TURNS_A_LOOK = 64

# A thread is taken for one that shares its CPU when it was taken off twice within so long;
# kernel threads alone do that now and then.
WINDOW_NS = 30_000_000
TAKEN_OFF = 2

# How long it is taken for one.
KEPT_NS = 1_000_000_000


class Sharing(threading.local):
    """What each thread has seen of its own CPU."""

    def __init__(self) -> None:
        self._from_ns = -WINDOW_NS - 1  # the window in which switches are counted
        self._switches = 0  # at its beginning
        self._until_ns = 0  # shared until then

    def is_shared(self, turn: int) -> bool:
        """Asked in each turn of a wait, with the number of the turn."""
        if turn % TURNS_A_LOOK:
            return self._until_ns != 0
        now_ns = time.monotonic_ns()
        if now_ns < self._until_ns:
            return True
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        if self._until_ns == 0 and now_ns - self._from_ns <= WINDOW_NS:
            if switches - self._switches < TAKEN_OFF:
                return False
            self._until_ns = now_ns + KEPT_NS
            return True
        self._until_ns, self._from_ns, self._switches = 0, now_ns, switches
        return False


sharing = Sharing()
