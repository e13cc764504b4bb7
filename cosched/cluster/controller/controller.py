"""Runs the controller of a domain: its engine, its users, and the other domains."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

from cosched.cluster.answers import DomainInfo, MateInfo, ReloadInfo
from cosched.cluster.controller.requests import Requests
from cosched.cluster.coupling.pairs import Pairs
from cosched.cluster.engines.interface import Engine
from cosched.cluster.member import first_error, until_one_ends
from cosched.cluster.paths import DomainPaths
from cosched.cluster.user_input import Visitor
from cosched.cluster.user_socket import Person, UserSocket
from cosched.core.errors import CoschedError, changing


class Controller:
    """The controller. log: takes one line about what happened."""

    def __init__(
        self, engine: Engine, paths: DomainPaths, log: Callable[[str], None]
    ) -> None:
        self._engine = engine
        self._paths = paths
        self._log = log
        self._requests = Requests(
            {
                "mates": self._mates,
                "domains": self._domains,
                "reload": self._reload,
                **engine.handlers,
            },
            engine.may_vouch,
            engine.unknown,
        )

    async def run(self, ready: Callable[[], None]) -> None:
        """Runs until the domain ends or it is cancelled. ready: called when it listens.

        Raises CoschedError if it cannot listen, and whatever makes it unable to go on.
        """
        # It must not act on a state that it could not store.
        failed = first_error(self._log)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload_by_signal)
        users = UserSocket(self._paths.controller_socket, self._receive_user, self._log)
        with ExitStack() as opened:
            self._open(opened)
            await users.open()
            works: list[Awaitable[Any]] = [failed, self._engine.run()]
            if self._engine.pairs is not None:
                works.append(self._engine.pairs.receive(self._engine.driver.receive))
            ready()
            try:
                await until_one_ends(*works)
            finally:
                await users.close()

    def _open(self, opened: ExitStack) -> None:
        """Starts to listen for agents, domains and Prometheus. opened: closes all that."""
        engine, pairs = self._engine, self._engine.pairs
        if pairs is not None:
            opened.callback(pairs.close)
            pairs.listen()
        opened.callback(engine.close)
        engine.open(self._requests.answer)
        if engine.metrics is not None:
            from cosched.cluster.coupling.metrics import serve_metrics  # few domains do

            opened.callback(serve_metrics(engine.metrics, engine.figures))

    def _receive_user(self, person: Person) -> Visitor:
        return Visitor(person, self._engine.inputs, self._requests.answer)

    async def _mates(self, _person: Person, _request: dict[str, Any]) -> list[MateInfo]:
        return self._pairs().waiting()

    async def _domains(self, _person: Person, _request: dict[str, Any]) -> list[DomainInfo]:
        return self._pairs().domains()

    def _pairs(self) -> Pairs:
        if self._engine.pairs is None:
            raise CoschedError("this domain is coupled with no other")
        return self._engine.pairs

    async def _reload(self, _person: Person, _request: dict[str, Any]) -> ReloadInfo:
        with changing("the settings"):
            return self._take_settings()

    def _reload_by_signal(self) -> None:
        try:
            self._take_settings()
        except CoschedError as error:
            self._log(f"nothing is changed: {error}")

    def _take_settings(self) -> ReloadInfo:
        change = self._engine.reload(self._paths)
        self._log(f"{self._paths.config}: {change['text']}")
        return change
