"""Connects the controller of a coupled domain with the controllers of the others."""

from __future__ import annotations

from collections.abc import Callable

from cosched.cluster.controller.clock import DomainClock
from cosched.cluster.controller.pairs import Pairs
from cosched.cluster.coupled.mail import connect
from cosched.cluster.coupled.memory import Memory
from cosched.cluster.coupled.metrics import Figures, figures, serve_metrics
from cosched.cluster.keys import make_keys
from cosched.cluster.paths import DomainPaths
from cosched.config.coupling import Coupled
from cosched.core.cluster.coupling.mail.messages import AnyMessage


class Peers:
    """The other domains, and the jobs with mates there. Makes the domain's pair of keys if
    there is none. Raises CoschedError for a key or a store that cannot be used."""

    def __init__(
        self, coupled: Coupled, paths: DomainPaths, log: Callable[[str], None]
    ) -> None:
        self._coupled = coupled
        self._end_metrics: Callable[[], None] | None = None
        make_keys(paths.peers, [coupled.name])
        self._links, self._mail = connect(paths, coupled, log)
        self._memory = Memory(paths.mates)
        self.pairs = Pairs(coupled, self._memory, self._mail, DomainClock())

    def listen(self) -> None:
        """Lets the other domains connect, and Prometheus if the settings want it. Raises
        CoschedError if an address is taken."""
        self._links.listen(self._coupled.listen)
        if self._coupled.metrics is not None:
            self._end_metrics = serve_metrics(self._coupled.metrics, self._figures)

    def _figures(self) -> Figures:
        now_ns = self.pairs.clock.now_ns()
        return figures(self.pairs.coupling, self._coupled.domains, now_ns)

    async def receive(self, handler: Callable[[str, AnyMessage], None]) -> None:
        """Passes each message and the domain that sent it to ``handler``, for ever."""
        await self._mail.receive(handler)

    def close(self) -> None:
        """Closes the connections and the store."""
        if self._end_metrics is not None:
            self._end_metrics()
        self._links.close()
        self._memory.close()
