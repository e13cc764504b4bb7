"""Computes how long a user must rest after work, so that all get a part of the time.

docs/dev/architecture.md, "Load", states the parts.
"""

from __future__ import annotations

from collections.abc import Hashable

#: After a piece of work, the user's next one waits for this many times its duration.
REST = 9
#: The rest of senders that need little: members, domains, users of a domain, clients of
#: metrics. It leaves a 25th of the time to each: four of them together take a sixth.
LONG_REST = 24
#: Work on malformed input counts this many times. Programs of this version cause none.
MALFORMED_TIMES = 5
#: So many debts are kept before the first look for settled ones.
_FEW = 64


class Allowance:
    """Computes the rest of each user: none for a burst of ``burst_ns``, nine tenths of the
    time in the long run. rest: how many times the duration of its work a user rests.

    It keeps a debt of each user until it is settled, which takes ``rest`` bursts at most.
    """

    def __init__(self, burst_ns: int, rest: int = REST) -> None:
        self._rest = rest
        self._most_owed_ns = rest * burst_ns
        self._owed: dict[Hashable, tuple[int, int]] = {}
        self._look_at = _FEW

    def __len__(self) -> int:
        """Returns the number of debts that are kept."""
        return len(self._owed)

    def charge(self, who: Hashable, took_ns: int, now_ns: int) -> int:
        """Adds ``took_ns`` of work for ``who``; returns how long ``who`` must rest."""
        began_ns = now_ns - took_ns
        owed_ns, since_ns = self._owed.get(who, (0, began_ns))
        owed_ns = max(0, owed_ns - (began_ns - since_ns)) + self._rest * took_ns
        self._owed[who] = owed_ns, now_ns
        if len(self._owed) > self._look_at:
            self._forget_settled(now_ns)
        return max(0, owed_ns - self._most_owed_ns)

    def rest_ns(self, who: Hashable, now_ns: int) -> int:
        """Returns how long ``who`` must rest from now on."""
        owed_ns, since_ns = self._owed.get(who, (0, now_ns))
        return max(0, owed_ns - (now_ns - since_ns) - self._most_owed_ns)

    def _forget_settled(self, now_ns: int) -> None:
        """Removes settled debts; looks again when there are twice as many as now."""
        self._owed = {
            who: (owed_ns, since_ns)
            for who, (owed_ns, since_ns) in self._owed.items()
            if owed_ns > now_ns - since_ns
        }
        self._look_at = max(_FEW, 2 * len(self._owed))
