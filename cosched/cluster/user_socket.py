"""Receives users' requests at a Unix socket. The kernel gives each user's identity.

A request and its answer are one line of JSON each. A connection may send several requests,
one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cosched.cluster.user_requests import LONGEST_REQUEST
from cosched.core.complaints import Complaints, fault
from cosched.core.errors import CoschedError, StateLost
from cosched.core.names import CONTROLLER
from cosched.core.units import NS_PER_MS, NS_PER_S
from cosched.linux.identity import peer_ids
from cosched.service.allowance import LONG_REST, Allowance
from cosched.service.door import Door

#: Connections of one user at a time.
CONNECTIONS_PER_USER = 1024
#: Bytes of one user's requests that are being read or answered at a time.
BYTES_PER_USER = 4 * LONGEST_REQUEST
#: The cost of a connection and of a request, without the work for its answer. A user may
#: cause a 25th of a CPU of such costs in the long run, after a burst.
CONNECTION_NS = 300_000
REQUEST_NS = 200_000
BURST_NS = 100 * NS_PER_MS
#: How long the kernel refuses a user who has too many connections.
SHUT_S = 1.0
_MODE = 0o666
_READ_BYTES = 1 << 16
#: How long answers may take when the socket closes.
CLOSE_WITHIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Person:
    """The user of a connection, by SO_PEERCRED."""

    uid: int  #: the user
    gid: int  #: the user's group
    #: Where the connection is: the controller, or the node whose agent vouches for it.
    member: str = CONTROLLER


class _TooLong(Exception):
    """A request is too long, or the user's requests together are."""


class Caller(Protocol):
    """Answers the requests of one connection."""

    async def answer(self, body: bytes) -> bytes:
        """Returns the answer to one request."""

    def leave(self) -> None:
        """Handles the end of the user's connection."""


class UserSocket:
    """A socket at ``path``, open to all users of the node. receive: returns what answers a
    user's connection. A request whose answer fails costs its user the connection, and
    ``log`` one line."""

    def __init__(
        self,
        path: Path,
        receive: Callable[[Person], Caller],
        log: Callable[[str], None],
    ) -> None:
        self._path = path
        self._receive = receive
        self._complaints = Complaints(log, time.monotonic_ns)
        self._server: asyncio.Server | None = None
        self._open: dict[int, int] = {}
        self._bytes: dict[int, int] = {}  # length of each user's requests, by uid
        self._costs = Allowance(BURST_NS, LONG_REST)
        self._door = Door(path, _MODE)
        self._serving: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Future[None]] = set()
        self._closed = False

    async def open(self) -> None:
        """Starts to listen. Raises CoschedError if it cannot, as at a path that is too
        long."""
        self._path.unlink(missing_ok=True)
        try:
            self._server = await asyncio.start_unix_server(
                self._serve, self._path, limit=_READ_BYTES
            )
        except OSError as error:
            why = error.strerror or error
            raise CoschedError(
                f"{self._path}: cannot listen there: {why}; use another --run-dir"
            ) from None
        os.chmod(self._path, _MODE)

    async def close(self) -> None:
        """Stops listening. Answers that are on their way get a moment; the connections of
        other users end."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        if self._answering:
            await asyncio.wait(self._answering, timeout=CLOSE_WITHIN_S)
        self._closed = True
        for task in self._serving:
            task.cancel()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        person = _person(writer.get_extra_info("socket"))
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        held = self._open.get(person.uid, 0)
        self._open[person.uid] = held + 1
        try:
            caller = self._receive(person)
            try:
                if held >= CONNECTIONS_PER_USER:
                    writer.write(b'{"error": "too many connections of this user"}\n')
                    self._shut_out(person.uid)
                else:
                    await self._pace(person, CONNECTION_NS)
                    await self._converse(person, caller, reader, writer)
            finally:
                if not self._closed:
                    caller.leave()
        except (asyncio.CancelledError, ConnectionError):
            return  # the socket closes, or the user has left
        except StateLost as error:
            context = {"message": f"{self._path}: a request failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        except Exception as error:  # noqa: BLE001  (it costs this user only)
            kind = f"{self._path.name}: a request failed; its connection is closed"
            self._complaints.about(person.uid, kind, fault(error))
        finally:
            self._serving.discard(task)
            self._open[person.uid] -= 1
            writer.close()

    async def _pace(self, person: Person, cost_ns: int) -> None:
        """Returns after the user's rest. Connections that rest count as open ones. Root and
        the user of this member have no account: a private domain has no other users."""
        if person.uid in (0, os.geteuid()):
            return
        rest_ns = self._costs.charge(person.uid, cost_ns, time.monotonic_ns())
        if rest_ns:
            await asyncio.sleep(rest_ns / NS_PER_S)

    def _shut_out(self, uid: int) -> None:
        """Makes the kernel refuse the user's connections for a while, if it can."""
        with contextlib.suppress(OSError):  # no access control lists; each is answered
            self._door.shut(uid)
            asyncio.get_running_loop().call_later(SHUT_S, self._door.open, uid)

    async def _converse(
        self,
        person: Person,
        caller: Caller,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        line = bytearray()
        try:
            while await self._read_line(person, line, reader):
                answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._answering.add(answered)
                try:
                    if not await self._answer_one(caller, bytes(line), reader, writer):
                        return
                finally:
                    self._answering.discard(answered)
                    answered.set_result(None)
                self._release(person, line)
                await self._pace(person, REQUEST_NS)
        except _TooLong:
            writer.write(b'{"error": "the request is too long"}\n')
        finally:
            self._release(person, line)

    async def _read_line(
        self, person: Person, line: bytearray, reader: asyncio.StreamReader
    ) -> bool:
        """Reads a request into ``line``; False at the end of the connection."""
        while not line.endswith(b"\n"):
            try:
                more = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return False
            except asyncio.LimitOverrunError as error:
                more = await reader.readexactly(error.consumed)
            line += more
            held = self._bytes.get(person.uid, 0) + len(more)
            self._bytes[person.uid] = held
            if len(line) > LONGEST_REQUEST or held > BYTES_PER_USER:
                raise _TooLong
        return True

    def _release(self, person: Person, line: bytearray) -> None:
        """Empties ``line``, and no longer counts it for its user."""
        held = self._bytes.pop(person.uid, 0) - len(line)
        if held > 0:
            self._bytes[person.uid] = held
        line.clear()

    async def _answer_one(
        self,
        caller: Caller,
        line: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Writes the answer; False if the user left, or sent more, while it took time."""
        answer = asyncio.ensure_future(caller.answer(line))
        await asyncio.sleep(0)
        # Most answers are ready now. To watch the user costs more than such an answer.
        if not answer.done() and not await self._is_first(answer, reader):
            return False
        writer.write(await answer + b"\n")
        await writer.drain()
        return True

    async def _is_first(
        self, answer: asyncio.Future[bytes], reader: asyncio.StreamReader
    ) -> bool:
        """Waits for the answer; False if the user leaves, or sends more, before it."""
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            await asyncio.wait({answer})
            if not gone.cancelled():
                gone.exception()  # the user may leave with an answer unread
            if not answer.cancelled():
                answer.result()
            return False
        gone.cancel()
        await asyncio.wait({gone})
        if gone.cancelled():
            return True
        gone.exception()
        answer.result()  # the user has left, but an error must be seen
        return False


def _person(connection: socket.socket) -> Person:
    _, uid, gid = peer_ids(connection)
    return Person(uid, gid)
