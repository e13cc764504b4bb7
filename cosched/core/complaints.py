"""Logs what goes wrong with the input of others, a line a minute for each of them.

A request that fails costs its sender only. Its handler may raise any error but
``StateLost`` (``errors``): the request is dropped, and one line names the sender.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable

from cosched.core.decoding import printable
from cosched.core.errors import CoschedError, StateLost
from cosched.core.units import NS_PER_S

#: How long a sender causes no second line of one kind.
QUIET_NS = 60 * NS_PER_S
#: The most senders and kinds that are remembered. Further ones share one line a minute.
REMEMBERED = 1024
#: The most characters of a line.
LINE_MOST = 500
_OTHERS = ("", "")

#: A user's number, a member's name or address, or None: no single sender caused it.
Sender = int | str | None
_Key = tuple[Sender, str]


class Complaints:
    """Lines about senders. write: takes one line. now_ns: a monotonic clock."""

    def __init__(self, write: Callable[[str], None], now_ns: Callable[[], int]) -> None:
        self._write = write
        self._now_ns = now_ns
        self._since_ns: dict[_Key, int] = {}
        self._left_out: dict[_Key, int] = {}

    def about(self, sender: Sender, kind: str, detail: str = "") -> None:
        """Writes a line, unless the sender caused one of this kind in the last minute.

        kind: one of few texts, which the sender cannot choose. detail: may have anything.
        """
        now_ns = self._now_ns()
        key: _Key = (sender, kind)
        if key not in self._since_ns and len(self._since_ns) >= REMEMBERED:
            self._forget_old(now_ns)
            if len(self._since_ns) >= REMEMBERED:
                key = _OTHERS
        since_ns = self._since_ns.get(key)
        if since_ns is not None and now_ns < since_ns + QUIET_NS:
            self._left_out[key] = self._left_out.get(key, 0) + 1
            return
        self._since_ns[key] = now_ns
        left_out = self._left_out.pop(key, 0)
        more = f" ({left_out} more like this before)" if left_out else ""
        line = f"{_shown(sender)}{kind}{': ' if detail else ''}{detail}"
        self._write(printable(line)[:LINE_MOST] + more)

    def attempt(self, sender: Sender, kind: str, work: Callable[[], None]) -> bool:
        """Does ``work`` for a sender; returns False, with a line, if it fails. Raises
        StateLost, and nothing else."""
        try:
            work()
        except StateLost:
            raise
        except Exception as error:  # noqa: BLE001  (it costs the sender only)
            self.about(sender, kind, fault(error))
            return False
        return True

    def _forget_old(self, now_ns: int) -> None:
        for key, since_ns in list(self._since_ns.items()):
            if now_ns >= since_ns + QUIET_NS:
                del self._since_ns[key]
                self._left_out.pop(key, None)


def fault(error: BaseException) -> str:
    """Returns one line about an error; one that was not expected also names its place."""
    if isinstance(error, CoschedError):
        return str(error)
    place = ""
    for frame in traceback.extract_tb(error.__traceback__)[-1:]:
        place = f" in {frame.name}, {frame.filename.rpartition('/')[2]}:{frame.lineno}"
    return f"{type(error).__name__}: {error}{place}"


def _shown(sender: Sender) -> str:
    if sender is None:
        return ""
    return f"user {sender}: " if isinstance(sender, int) else f"{sender}: "
