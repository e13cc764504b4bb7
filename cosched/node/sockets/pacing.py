"""Whose requests come when: one user's never take more than a part of the daemon's time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Hashable

from cosched.core.units import NS_PER_S
from cosched.node.loop import Loop

Work = Callable[[], None]

#: After a request a user's next one waits for this many times what that one took.
REST = 9
#: Work for which the rest may be put off where it comes in bursts: a job's tasks all
#: register at once, and ask at the same switches.
BURST_NS = NS_PER_S


class Allowance:
    """Who has to rest, and how long: for ``burst_ns`` of work at once nobody, in the long
    run everybody for nine tenths of the time."""

    def __init__(self, burst_ns: int) -> None:
        self._most_owed_ns = REST * burst_ns
        self._owed: dict[Hashable, tuple[int, int]] = {}

    def charge(self, who: Hashable, took_ns: int, now_ns: int) -> int:
        """How long ``who`` has to rest after work that took so long."""
        began_ns = now_ns - took_ns
        owed_ns, since_ns = self._owed.get(who, (0, began_ns))
        owed_ns = max(0, owed_ns - (began_ns - since_ns)) + REST * took_ns
        self._owed[who] = owed_ns, now_ns
        return max(0, owed_ns - self._most_owed_ns)

    def forget(self, who: Hashable) -> None:
        """It is not there any more."""
        self._owed.pop(who, None)


class Pacer:
    """Does the work that users ask for, one piece a user and round of the loop.

    All of a user's connections are in one line, so that more of them get him no more of
    the daemon's time: a tenth at most, but for ``burst_ns``. Users in ``exempt`` need not
    rest.
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
        """Does ``work`` now, or when it is this user's turn."""
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
