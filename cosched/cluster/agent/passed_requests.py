"""Passes the requests of this node's users on to the controller."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable

from cosched.cluster.message_kinds import Message
from cosched.cluster.messages import UserLeft, UserReply, UserRequest
from cosched.cluster.user_socket import Person

_FULL = {"error": "too many requests wait for the controller; try again"}


class UserRequests:
    """The requests without an answer. send: sends a message to the controller. is_full:
    returns whether too much is on its way there already."""

    def __init__(
        self, send: Callable[[Message], None], is_full: Callable[[], bool]
    ) -> None:
        self._send = send
        self._is_full = is_full
        self._waiting: dict[int, tuple[UserRequest, asyncio.Future[bytes]]] = {}
        # Answers to requests of a former life of this agent must not fit new ones.
        self._latest = secrets.randbits(48)
        self._closed = False

    async def ask(self, person: Person, body: bytes) -> bytes:
        """Sends a user's request; returns the controller's answer."""
        if self._is_full():
            return json.dumps(_FULL).encode()
        self._latest += 1
        request = UserRequest(self._latest, person.uid, person.gid, body)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[request.number] = (request, answer)
        self._send(request)
        try:
            return await answer
        except asyncio.CancelledError:
            if not self._closed:
                self._send(UserLeft(request.number))
            raise
        finally:
            self._waiting.pop(request.number, None)

    def take(self, reply: UserReply) -> None:
        """Gives an answer to the user that waits for it."""
        request = self._waiting.pop(reply.number, None)
        if request is not None and not request[1].done():
            request[1].set_result(reply.body)

    def send_again(self) -> None:
        """Sends all requests without an answer, because a new session has begun."""
        for request, _ in self._waiting.values():
            self._send(request)

    def close(self) -> None:
        """Sends nothing more: the agent ends."""
        self._closed = True
