"""Limits what another domain can cost: messages and writes to the disk. Pure."""

from __future__ import annotations

from cosched.core.cluster.coupling.engine import PassWanted, Send
from cosched.core.cluster.coupling.mail.messages import PASSING, Answer
from cosched.core.cluster.queue.messages import WakeAt
from cosched.core.units import NS_PER_S

#: Messages that a domain may send at once, and each second in the long run. A pair of jobs
#: needs some ten. Those beyond are dropped; the other domain sends them again.
MOST_AT_ONCE = 2000
MOST_PER_S = 500


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
