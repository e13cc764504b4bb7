"""Keeps what proves to an agent that a start comes from the controller."""

from __future__ import annotations

from collections import OrderedDict

from cosched.cluster.agent.route import Route
from cosched.core.cluster.startup.seal import Tied, unseal
from cosched.core.errors import CoschedError

#: The starts that are remembered, so that no member can repeat one.
REMEMBERED = 100_000


class Proofs:
    """The proofs of one life of an agent."""

    def __init__(self) -> None:
        self._secrets: list[bytes] = []  # the latest two joins have one each
        self._seen: OrderedDict[tuple[int, int], None] = OrderedDict()

    @property
    def joined(self) -> bool:
        """Whether the agent shares a secret with the controller."""
        return bool(self._secrets)

    def renew(self, secret: bytes) -> None:
        """Stores the secret of a join. The one before stays valid: a start that an earlier
        life of the controller has sent may still be on its way over other nodes."""
        if secret not in self._secrets[:1]:
            self._secrets = [secret, *self._secrets[:1]]

    def open(self, route: Route, sealed: bytes) -> bytes:
        """Returns the job object. Raises CoschedError if the controller did not send it to
        this node for this start, or if the start was here before."""
        tied = Tied(route.job, route.start, route.nodes, route.tree.arity, route.exchange)
        data = unseal(sealed, tied, route.place, self._secrets)
        start = (route.job, route.start)
        if start in self._seen:
            raise CoschedError(f"start {route.start} of the job was here before")
        self._seen[start] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return data
