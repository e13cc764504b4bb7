"""Keeps what proves to an agent that a start comes from the controller."""

from __future__ import annotations

from collections import OrderedDict

from cosched.cluster.agent.route import Route
from cosched.core.cluster.startup.seal import Tied, unseal
from cosched.core.errors import CoschedError

#: The starts that are remembered, so that no member can repeat one.
REMEMBERED = 100_000


class Proofs:
    """The proofs of one life of an agent. secret: shared with the controller; empty as long
    as the agent has not joined."""

    def __init__(self) -> None:
        self.secret = b""
        self._seen: OrderedDict[tuple[int, int], None] = OrderedDict()

    def open(self, route: Route, sealed: bytes) -> bytes:
        """Returns the job object. Raises CoschedError if the controller did not send it to
        this node for this start, or if the start was here before."""
        tied = Tied(route.job, route.start, route.nodes, route.tree.arity, route.exchange)
        data = unseal(sealed, tied, route.place, self.secret)
        start = (route.job, route.start)
        if start in self._seen:
            raise CoschedError(f"start {route.start} of the job was here before")
        self._seen[start] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return data
