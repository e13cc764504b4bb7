"""Limits the part of the daemon's time that the requests of one user may take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Hashable

from cosched.core.units import NS_PER_S
from cosched.node.loop import Loop

Work = Callable[[], None]

#: After a request, the user's next one waits for this many times its duration.
REST = 9
#: Work that may come at once without a rest: a job's tasks register at the same time, and
#: make requests at the same switches.
BURST_NS = NS_PER_S


class Allowance:
    """Computes the rest of each user: none for a burst of ``burst_ns``, nine tenths of the
    time in the long run."""

    def __init__(self, burst_ns: int) -> None:
        self._most_owed_ns = REST * burst_ns
        self._owed: dict[Hashable, tuple[int, int]] = {}

    def charge(self, who: Hashable, took_ns: int, now_ns: int) -> int:
        """Adds ``took_ns`` of work for ``who``; returns how long ``who`` must rest."""
        began_ns = now_ns - took_ns
        owed_ns, since_ns = self._owed.get(who, (0, began_ns))
        owed_ns = max(0, owed_ns - (began_ns - since_ns)) + REST * took_ns
        self._owed[who] = owed_ns, now_ns
        return max(0, owed_ns - self._most_owed_ns)

    def forget(self, who: Hashable) -> None:
        """Removes ``who``."""
        self._owed.pop(who, None)


class Pacer:
    """Does the work of users' requests, one request per user and round of the loop.

    All connections of a user share one queue, so more connections give no more of the
    daemon's time: at most a tenth, after a burst of ``burst_ns``. Users in ``exempt`` need
    no rest.
    """

    def __init__(
        self,
        loop: Loop,
        exempt: Collection[int],
        now_ns: Callable[[], int] = time.monotonic_ns,
        burst_ns: int = 0,
    ) -> None:
        self._loop = loop
        self._exempt = frozenset(exempt)
        self._now_ns = now_ns
        self._allowance = Allowance(burst_ns)
        self._lines: dict[int, deque[Work]] = {}

    def submit(self, uid: int, work: Work) -> None:
        """Does ``work`` now, or after the user's earlier requests and rest."""
        line = self._lines.get(uid)
        if line is not None:
            line.append(work)
            return
        self._lines[uid] = deque()
        self._do(uid, work)

    def _do(self, uid: int, work: Work) -> None:
        began_ns = self._now_ns()
        work()
        now_ns = self._now_ns()
        rest_ns = 0
        if uid not in self._exempt:
            rest_ns = self._allowance.charge(uid, now_ns - began_ns, now_ns)
        if rest_ns or self._lines[uid]:
            self._loop.call_at(now_ns + rest_ns, lambda: self._next(uid))
        else:
            del self._lines[uid]

    def _next(self, uid: int) -> None:
        line = self._lines[uid]
        if line:
            self._do(uid, line.popleft())
        else:
            del self._lines[uid]
