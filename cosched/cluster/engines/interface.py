"""Defines an engine: it queues the jobs of a domain, gives them nodes and starts them.

The controller has one of them and does not ask which. An engine has a driver
(``coupling.driver``), which feeds a machine of decisions: the queue, the coupling with
other domains, or both. The driver stores what must be stored and sends messages; the engine
carries out all else that the machine orders. Orders return at once; their effects come back
as events for the driver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from cosched.cluster.answers import ReloadInfo
from cosched.cluster.coupling.domain_figures import Figures
from cosched.cluster.coupling.driver import Driver
from cosched.cluster.coupling.pairs import Pairs
from cosched.cluster.paths import DomainPaths
from cosched.cluster.user_input import Inputs
from cosched.cluster.user_socket import Person

#: Returns the answer to a decoded request, or raises CoschedError.
Handler = Callable[[Person, dict[str, Any]], Awaitable[Any]]
#: Returns the answer to a request as it came.
Answer = Callable[[Person, bytes], Awaitable[bytes]]


class Engine(Protocol):
    """The engine of a domain, as the domain's controller sees it."""

    #: Feeds the machine that decides about the domain's jobs.
    driver: Driver
    #: The jobs with mates; None: the domain is coupled with no other.
    pairs: Pairs | None
    #: Passes on the input that users give to jobs.
    inputs: Inputs
    #: The answer to each request that is not the controller's, by its name.
    handlers: dict[str, Handler]
    #: One line for a request without a handler.
    unknown: str
    #: Whether the member that names a person may do so.
    may_vouch: Callable[[Person], bool]
    #: ``HOST:PORT`` for Prometheus; None: nothing listens.
    metrics: str | None

    def open(self, answer: Answer) -> None:
        """Starts to listen, and takes the stored jobs. answer: the controller's function
        for requests that do not come by its socket. Raises CoschedError."""

    async def run(self) -> None:
        """Runs until the domain ends. Raises whatever makes it unable to go on."""

    def close(self) -> None:
        """Closes what ``open`` has opened."""

    def reload(self, paths: DomainPaths) -> ReloadInfo:
        """Reads domain.toml again; returns what has changed. Raises CoschedError for a
        mistake in it; nothing has changed then."""

    def figures(self) -> Figures:
        """Returns the present figures for Prometheus."""
