"""Limits what another domain can cost: messages, writes to the disk, lines of the log.
Pure."""

from __future__ import annotations

from collections.abc import Callable

from cosched.core.cluster.coupling.engine import PassWanted, Send
from cosched.core.cluster.coupling.mail.messages import PASSING, Answer
from cosched.core.cluster.queue.messages import WakeAt
from cosched.core.units import NS_PER_S

#: Messages that a domain may send at once, and each second in the long run. A pair of jobs
#: needs some ten. Those beyond are dropped; the other domain sends them again.
MOST_AT_ONCE = 2000
MOST_PER_S = 500
#: Lines about other domains' messages that are logged each minute.
MOST_LINES = 20
_MINUTE_NS = 60 * NS_PER_S


def leaves_no_trace(command: object) -> bool:
    """Returns whether a command may be carried out before the state is stored: it is an
    answer before which nothing was done, or concerns only this process. So a flood of
    questions does not cost as many writes to the disk."""
    match command:
        case WakeAt() | PassWanted():
            return True
        case Send(message=Answer(reply=reply)):
            return isinstance(reply, PASSING)
    return False


class Allowance:
    """Lets ``most`` messages through at once, and ``per_s`` a second in the long run."""

    __slots__ = ("_at_ns", "_left", "_most", "_per_s")

    def __init__(self, most: int = MOST_AT_ONCE, per_s: int = MOST_PER_S) -> None:
        self._most, self._per_s = most, per_s
        self._left = float(most)
        self._at_ns = 0

    def admit(self, now_ns: int) -> bool:
        """Returns whether a message may pass that came at ``now_ns``."""
        more = max(0, now_ns - self._at_ns) * self._per_s / NS_PER_S
        self._left = min(self._most, self._left + more)
        self._at_ns = now_ns
        if self._left < 1:
            return False
        self._left -= 1
        return True


class FewLines:
    """Passes on ``most`` lines a minute, and then the number of the others."""

    def __init__(
        self,
        write: Callable[[str], None],
        now_ns: Callable[[], int],
        most: int = MOST_LINES,
    ) -> None:
        self._write = write
        self._now_ns = now_ns
        self._most = most
        self._since_ns: int | None = None
        self._lines = 0

    def __call__(self, line: str) -> None:
        """Takes a line."""
        now_ns = self._now_ns()
        if self._since_ns is None or now_ns >= self._since_ns + _MINUTE_NS:
            if self._lines > self._most:
                self._write(f"{self._lines - self._most} more lines of this kind")
            self._since_ns, self._lines = now_ns, 0
        self._lines += 1
        if self._lines <= self._most:
            self._write(line)
