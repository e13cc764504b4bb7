"""Passes standard input from a user at a member's socket to the root of the user's job.

A user gives input in pieces, each with its place in the whole. A piece is answered when
rank 0 has room for more, so a user has one piece under way. After a broken connection the
same piece may be given again. When a user leaves, the job's input ends.

The job's root may be lost with a piece. So the member asks the controller to answer once
the job's start is over. No piece waits longer.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec

from cosched.cluster.message_kinds import Message
from cosched.cluster.messages import AT_END, PIECE_MOST, GiveInput, InputTaken
from cosched.cluster.user_requests import LONGEST_REQUEST
from cosched.cluster.user_socket import Person
from cosched.core.bounds import Name, Natural, Offset
from cosched.core.decoding import JsonDecoder, Malformed, decode_json
from cosched.core.errors import CoschedError


class _Request(msgspec.Struct, frozen=True):
    """Input for a job. node: its root."""

    job: Natural
    start: Natural
    node: Name
    at: Offset
    data: bytes
    last: bool = False


class _What(msgspec.Struct, frozen=True):
    do: str = ""


_what: JsonDecoder[_What] = JsonDecoder(_What, "a request", LONGEST_REQUEST)
_request: JsonDecoder[_Request] = JsonDecoder(_Request, "input", LONGEST_REQUEST)


class Inputs:
    """Input under way from this member. nodes: the names of the domain's nodes."""

    def __init__(
        self, nodes: Collection[str], send: Callable[[str, Message], None]
    ) -> None:
        self._nodes = nodes
        self._send = send
        #: Not set as long as an agent does not know the nodes; input waits then.
        self.ready = asyncio.Event()
        self.ready.set()
        # Answers to a former life of this member must not fit.
        self._number = secrets.randbits(48)
        self._open: dict[tuple[str, int], asyncio.Future[InputTaken]] = {}

    def take(self, sender: str, message: InputTaken) -> None:
        """Handles the answer of a job's root. One of another node fits no piece."""
        answer = self._open.get((sender, message.number))
        if answer is not None and not answer.done():
            answer.set_result(message)

    def check(self, request: _Request) -> None:
        """Raises CoschedError for a piece that cannot be given."""
        if request.node not in self._nodes:
            raise CoschedError(f"node {request.node}: is not in this domain")
        if len(request.data) > PIECE_MOST or request.at < 0:
            raise CoschedError(f"input: a piece has at most {PIECE_MOST} bytes")

    async def give(self, person: Person, request: _Request) -> InputTaken:
        """Passes a piece on that was checked; returns the root's answer. Raises
        CoschedError if the job does not take it."""
        self._number += 1
        piece = request.node, self._number
        self._open[piece] = asyncio.get_running_loop().create_future()
        self._pass(person, request, self._number, request.at)
        try:
            answer = await self._open[piece]
        finally:
            del self._open[piece]
        if answer.problem:
            raise CoschedError(answer.problem)
        return answer

    def end(self, person: Person, request: _Request) -> None:
        """Ends the input to which the request belongs, after all that was given."""
        end = msgspec.structs.replace(request, data=b"", last=True)
        self._pass(person, end, 0, AT_END)

    def _pass(self, person: Person, request: _Request, number: int, at: int) -> None:
        message = GiveInput(
            request.job, request.start, number, person.uid, at, request.data, request.last
        )
        self._send(request.node, message)


class Visitor:
    """Answers one user's connection: passes input on, and all other requests to
    ``answer``. It is the ``Caller`` of a user's socket."""

    def __init__(
        self,
        person: Person,
        inputs: Inputs,
        answer: Callable[[Person, bytes], Awaitable[bytes]],
    ) -> None:
        self._person = person
        self._inputs = inputs
        self._answer = answer
        self._given: dict[tuple[int, int], _Request] = {}  # input that has not ended
        self._over: dict[tuple[int, int], asyncio.Future[bytes]] = {}  # when its start is

    async def answer(self, body: bytes) -> bytes:
        """Returns the answer to one request."""
        try:
            if _what.decode(body).do != "input":
                return await self._answer(self._person, body)
            request = _request.decode(body)
        except Malformed:  # the domain refuses it
            return await self._answer(self._person, body)
        await self._inputs.ready.wait()
        try:
            self._inputs.check(request)
            self._given[request.job, request.start] = request
            taken = await self._give(request)
        except CoschedError as error:
            return json.dumps({"error": str(error)}).encode()
        if request.last or not taken.open:
            del self._given[request.job, request.start]
            self._over.pop((request.job, request.start)).cancel()
        return json.dumps({"ok": {"taken": taken.taken, "open": taken.open}}).encode()

    def leave(self) -> None:
        """Ends the input that the user has left open."""
        for request in self._given.values():
            self._inputs.end(self._person, request)
        for over in self._over.values():
            over.cancel()

    async def _give(self, request: _Request) -> InputTaken:
        """Returns the answer of the job's root; that of a closed input once the start is
        over. Raises CoschedError if the job does not take the input."""
        over = self._await_end(request)
        given = asyncio.ensure_future(self._inputs.give(self._person, request))
        try:
            both: set[asyncio.Future[Any]] = {given, over}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not given.done() and "ok" in decode_json(over.result(), "an answer"):
                return InputTaken(0, request.at, False, "")
            return await given
        finally:
            given.cancel()

    def _await_end(self, request: _Request) -> asyncio.Future[bytes]:
        """Returns what is done once the start of a piece is over."""
        key = request.job, request.start
        if key not in self._over:
            wait = {"do": "wait", "job": key[0], "until": "over", "start": key[1]}
            body = json.dumps(wait).encode()
            self._over[key] = asyncio.ensure_future(self._answer(self._person, body))
        return self._over[key]
