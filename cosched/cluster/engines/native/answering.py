"""Answers the requests that agents pass on, each once.

An agent holds a request until it has the answer, and sends it again in each new session.
The numbers of its requests grow. So a request whose number is not new is being answered, or
its answer is under way: an answer outlasts the loss of its node (``messages.LASTING``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from cosched.cluster.message_kinds import Message
from cosched.cluster.messages import UserReply, UserRequest
from cosched.cluster.user_socket import Person


@dataclass(slots=True)
class _Asked:
    """The requests of one life of an agent. latest: the number of the last one. open: the
    tasks that answer, by number."""

    latest: int = -1
    open: dict[int, asyncio.Task[None]] = field(default_factory=dict)


class Answering:
    """The requests of all agents that have no answer yet.

    answer: returns the answer to a user's request. send: sends a message to a member.
    spawn: runs the work beside the controller.
    """

    def __init__(
        self,
        answer: Callable[[Person, bytes], Awaitable[bytes]],
        send: Callable[[str, Message], None],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._answer = answer
        self._send = send
        self._spawn = spawn
        self._of: dict[str, _Asked] = {}

    @property
    def empty(self) -> bool:
        """Returns whether each request has its answer."""
        return not any(asked.open for asked in self._of.values())

    def take(self, agent: str, request: UserRequest) -> None:
        """Answers a request, unless it came before."""
        asked = self._of.setdefault(agent, _Asked())
        if request.number > asked.latest:
            asked.latest = request.number
            asked.open[request.number] = self._spawn(self._reply(agent, request))

    def withdraw(self, agent: str, number: int) -> None:
        """Gives a request up: its user has left."""
        asked = self._of.get(agent)
        task = None if asked is None else asked.open.pop(number, None)
        if task is not None:
            task.cancel()

    def forget(self, agent: str) -> None:
        """Gives all requests of an agent up. It has ended, or it asks all again."""
        asked = self._of.pop(agent, None)
        for task in () if asked is None else asked.open.values():
            task.cancel()

    async def _reply(self, agent: str, request: UserRequest) -> None:
        person = Person(request.uid, request.gid, agent)
        body = await self._answer(person, request.body)
        self._of[agent].open.pop(request.number, None)
        self._send(agent, UserReply(request.number, body))
