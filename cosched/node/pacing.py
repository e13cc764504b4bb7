"""Whose requests come when: one user's never take more than a part of the daemon's time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection

from cosched.node.loop import Loop

Work = Callable[[], None]

#: After a request a user's next one waits for this many times what that one took.
REST = 9


class Pacer:
    """Does the work that users ask for, one piece a user and round of the loop.

    All of a user's connections are in one line, so that more of them get him no more of
    the daemon's time: a tenth at most. Users in ``exempt`` need not rest.
    """

    def __init__(
        self,
        loop: Loop,
        exempt: Collection[int],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._loop = loop
        self._exempt = frozenset(exempt)
        self._now_ns = now_ns
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
        rest_ns = 0 if uid in self._exempt else REST * (now_ns - began_ns)
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
