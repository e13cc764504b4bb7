"""Keeps what an agent knows about the nodes of its domain, from the controller's roster.

Another node may have a newer roster and send a start with nodes that are not known here
yet. Messages about such a start wait for the roster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from cosched.cluster.message_kinds import OfJob
from cosched.cluster.messages import Chunk, Roster
from cosched.core.errors import CoschedError

#: The most messages that wait for a roster.
WAITING_MOST = 1000


class KnownNodes:
    """The nodes of the domain. names: by number. addresses: by name."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.addresses: dict[str, str] = {}
        self._version = 0
        self._waiting: defaultdict[tuple[int, int], list[tuple[str, OfJob]]]
        self._waiting = defaultdict(list)

    def take(self, roster: Roster) -> Iterable[tuple[str, OfJob]]:
        """Takes a new roster; returns the messages that waited, with their senders."""
        self.names = {node.number: node.name for node in roster.nodes}
        self.addresses.clear()  # others read it, too
        self.addresses.update((node.name, node.address) for node in roster.nodes)
        self._version = roster.version
        waiting = list(self._waiting.values())
        self._waiting.clear()
        return [each for of_start in waiting for each in of_start]

    def keeps(self, sender: str, message: OfJob) -> bool:
        """Returns whether a message waits for a newer roster. Raises CoschedError if too
        many wait."""
        start = message.job, message.start
        new = isinstance(message, Chunk) and message.roster > self._version
        if not new and start not in self._waiting:
            return False
        if sum(map(len, self._waiting.values())) >= WAITING_MOST:
            raise CoschedError(f"{WAITING_MOST} messages wait for the list of nodes")
        self._waiting[start].append((sender, message))
        return True

    def forget(self, start: tuple[int, int]) -> None:
        """Drops the messages about a start that has ended."""
        self._waiting.pop(start, None)
