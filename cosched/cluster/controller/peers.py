"""Connects the controller of a coupled domain with the controllers of the others."""

from __future__ import annotations

from collections.abc import Callable

from cosched.cluster.controller.clock import DomainClock
from cosched.cluster.controller.pairs import Pairs
from cosched.cluster.coupled.config import Coupled
from cosched.cluster.coupled.mail import connect
from cosched.cluster.coupled.memory import Memory
from cosched.cluster.keys import make_keys
from cosched.cluster.paths import DomainPaths
from cosched.core.cluster.coupling.mail.messages import AnyMessage


class Peers:
    """The other domains, and the jobs with mates there. Makes the domain's pair of keys if
    there is none. Raises CoschedError for a key or a store that cannot be used."""

    def __init__(
        self, coupled: Coupled, paths: DomainPaths, log: Callable[[str], None]
    ) -> None:
        self._listen = coupled.listen
        make_keys(paths.peers, [coupled.name])
        self._links, self._mail = connect(paths, coupled, log)
        self._memory = Memory(paths.mates)
        self.pairs = Pairs(coupled, self._memory, self._mail, DomainClock())

    def listen(self) -> None:
        """Lets the other domains connect. Raises CoschedError if the address is taken."""
        self._links.listen(self._listen)

    async def receive(self, handler: Callable[[str, AnyMessage], None]) -> None:
        """Passes each message and the domain that sent it to ``handler``, for ever."""
        await self._mail.receive(handler)

    def close(self) -> None:
        """Closes the connections and the store."""
        self._links.close()
        self._memory.close()
