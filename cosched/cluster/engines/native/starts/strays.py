"""Ends the starts that nodes have and should not have."""

from __future__ import annotations

from collections.abc import Callable

from cosched.cluster.engines.native.basics import Outbox
from cosched.cluster.messages import End
from cosched.core.errors import CoschedError

#: The most starts of one node that are not known; it has far fewer jobs.
STRAYS_MOST = 10_000
_UNKNOWN = "the controller does not have this start"


class Strays:
    """Ends the starts that nodes still have although their end is stored already. A node
    takes no job until its last one is gone.

    on_change: called with a node's name when it gets its first one, or loses its last one.
    """

    def __init__(self, send: Outbox, on_change: Callable[[str], None]) -> None:
        self._send = send
        self._on_change = on_change
        self._of_node: dict[str, set[tuple[int, int]]] = {}

    def on(self, node: str) -> bool:
        """Returns whether a node has any."""
        return node in self._of_node

    def replace(self, node: str, starts: set[tuple[int, int]]) -> None:
        """Ends all starts that a node has."""
        if not starts:
            self.forget(node)
        elif node in self._of_node:
            self._of_node[node] = set()
        for job, start in sorted(starts)[:STRAYS_MOST]:
            self.end(node, job, start)

    def end(self, node: str, job: int, start: int) -> None:
        """Ends a start on a node. Raises CoschedError for more than a node can have."""
        if len(self._of_node.get(node, ())) >= STRAYS_MOST:
            raise CoschedError(f"has more than {STRAYS_MOST} starts that are not known")
        first = node not in self._of_node
        self._of_node.setdefault(node, set()).add((job, start))
        self._send(node, End(job, start, _UNKNOWN, direct=True))
        if first:
            self._on_change(node)

    def ended(self, node: str, job: int, start: int) -> None:
        """Removes a start that a node does not have any more."""
        left = self._of_node.get(node)
        if left is not None:
            left.discard((job, start))
            if not left:
                self.forget(node)

    def forget(self, node: str) -> None:
        """Forgets those of a node: it is lost, or has none."""
        if self._of_node.pop(node, None) is not None:
            self._on_change(node)
