"""Answers users' requests to the controller, if the user may send them. Each is one line of
JSON with a member ``do``."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import partial
from typing import Any

from cosched.cluster.engines.interface import Handler
from cosched.cluster.messages import LONGEST
from cosched.cluster.user_requests import LONGEST_REQUEST
from cosched.cluster.user_socket import Person
from cosched.core.decoding import JsonDecoder, Malformed
from cosched.core.errors import CoschedError
from cosched.core.task_rights import ROOT
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.service.allowance import MALFORMED_TIMES, Allowance

#: Work for one user that may come at once, before the user's requests are paced.
BURST_NS = 5 * NS_PER_S
#: The same for requests that are refused.
REFUSED_BURST_NS = 100 * NS_PER_MS
#: The longest answer, in bytes: it must fit into a message to an agent.
ANSWER_MOST = LONGEST // 2
#: Requests that all users may send: they change nothing.
_READING = ("queue", "job", "tasks", "wait", "ended", "nodes", "mates", "domains")
#: Requests of root, or of the user of the controller.
_STEERING = ("add", "remove", "drain", "undrain", "reload", "down")

_request: JsonDecoder[dict[str, Any]] = JsonDecoder(
    dict[str, Any], "a request", LONGEST_REQUEST
)


class Requests:
    """Answers by ``handlers``. may_vouch: whether the member that names a person may do so.
    unknown: the answer to a request without a handler."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        may_vouch: Callable[[Person], bool],
        unknown: str,
    ) -> None:
        self._handlers = handlers
        self._may_vouch = may_vouch
        self._unknown = unknown
        self._allowance = Allowance(BURST_NS)
        self._refused = Allowance(REFUSED_BURST_NS)

    async def answer(self, person: Person, body: bytes) -> bytes:
        """Returns ``{"ok": ...}``, or ``{"error": ...}`` with one line."""
        began_ns = time.monotonic_ns()
        try:
            request = _request.decode(body)
        except Malformed:
            return await self._refuse(person, began_ns, self._unknown, MALFORMED_TIMES)
        wanted = request.get("do")
        handler = self._handlers.get(wanted) if isinstance(wanted, str) else None
        if handler is None:
            return await self._refuse(person, began_ns, self._unknown, MALFORMED_TIMES)
        waiting = _Waiting(partial(handler, person, request))
        try:
            if wanted not in _READING:
                self._expect_known(person)
            if wanted in _STEERING:
                self._expect_operator(person)
            result = await waiting
        except CoschedError as error:
            times = MALFORMED_TIMES if isinstance(error, Malformed) else 1
            began_ns += waiting.waited_ns
            return await self._refuse(person, began_ns, str(error), times)
        await self._pace(person, began_ns + waiting.waited_ns, self._allowance)
        answer = json.dumps({"ok": result}).encode()
        if len(answer) > ANSWER_MOST:
            return _refusal(f"the answer has {len(answer)} bytes; ask for single jobs")
        return answer

    async def _refuse(
        self, person: Person, began_ns: int, reason: str, times: int
    ) -> bytes:
        """Returns a refusal. A user who causes many of them waits. times: how often its
        work counts."""
        await self._pace(person, began_ns, self._refused, times)
        return _refusal(reason)

    async def _pace(
        self, person: Person, began_ns: int, allowance: Allowance, times: int = 1
    ) -> None:
        """Delays a user's request if the user has had more than a tenth of the controller's
        time."""
        if self._is_operator(person):
            return
        now_ns = time.monotonic_ns()
        rest_ns = allowance.charge(person.uid, times * (now_ns - began_ns), now_ns)
        if rest_ns:
            await asyncio.sleep(rest_ns / NS_PER_S)

    def _expect_known(self, person: Person) -> None:
        if self._may_vouch(person):
            return
        if ROOT in (person.uid, person.gid):
            whose, remedy = "root's requests", "add the node to security.root_from"
        else:
            whose, remedy = f"requests of user {person.uid}", "lower security.least_uid"
        raise CoschedError(
            f"{whose} from node {person.member} are refused: send them on the "
            f"controller's machine, or {remedy} in domain.toml"
        )

    def _expect_operator(self, person: Person) -> None:
        if not self._is_operator(person):
            raise CoschedError("only root, or the user of the controller, may do this")

    def _is_operator(self, person: Person) -> bool:
        return person.uid in (0, os.geteuid()) and self._may_vouch(person)


class _Waiting:
    """Awaits a handler, and adds up how long that waits for other things: no work."""

    def __init__(self, handler: Callable[[], Awaitable[Any]]) -> None:
        self.waited_ns = 0
        self._handler = handler

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._handler().__await__()
        go_on = steps.__next__
        while True:
            try:
                awaited = go_on()
            except StopIteration as end:
                return end.value
            began_ns = time.monotonic_ns()
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001  (the handler gets it)
                go_on = partial(steps.throw, error)
            else:
                go_on = steps.__next__
            self.waited_ns += time.monotonic_ns() - began_ns


def _refusal(reason: str) -> bytes:
    """Returns the answer to a request that is refused."""
    return json.dumps({"error": reason}).encode()
