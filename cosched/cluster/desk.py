"""Takes users' requests at a Unix socket. The kernel gives each user's identity.

A request and its answer are one line of JSON each. A connection may send several requests,
one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from cosched.cluster.submission import LONGEST_REQUEST

#: Connections of one user at a time.
CONNECTIONS_PER_USER = 1024
#: How long answers may take when the desk closes.
CLOSE_WITHIN_S = 1.0
_PEER = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Person:
    """The user of a connection, by SO_PEERCRED."""

    uid: int
    gid: int


Answer = Callable[[Person, bytes], Awaitable[bytes]]


class Desk:
    """A socket at ``path``, open to all users of the node; ``answer`` answers."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self._path = path
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._open: dict[int, int] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Future[None]] = set()

    async def open(self) -> None:
        """Starts to listen."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(
            self._serve, self._path, limit=LONGEST_REQUEST
        )
        os.chmod(self._path, 0o666)

    async def close(self) -> None:
        """Stops listening. Answers that are on their way get a moment; the connections of
        other users end."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        if self._answering:
            await asyncio.wait(self._answering, timeout=CLOSE_WITHIN_S)
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
            if held >= CONNECTIONS_PER_USER:
                writer.write(b'{"error": "too many connections of this user"}\n')
            else:
                await self._converse(person, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return  # the user has left, or the desk closes
        finally:
            self._serving.discard(task)
            self._open[person.uid] -= 1
            writer.close()

    async def _converse(
        self, person: Person, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                writer.write(b'{"error": "the request is too long"}\n')
                return
            if not line.endswith(b"\n"):
                return
            answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._answering.add(answered)
            try:
                if not await self._answer_one(person, line, reader, writer):
                    return
            finally:
                self._answering.discard(answered)
                answered.set_result(None)

    async def _answer_one(
        self,
        person: Person,
        line: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Writes the answer; False if the user has left, or sent more before it."""
        answer = asyncio.ensure_future(self._answer(person, line))
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            return False
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gone
            return False
        writer.write(await answer + b"\n")
        await writer.drain()
        return True


def _person(connection: socket.socket) -> Person:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _, uid, gid = _PEER.unpack(raw)
    return Person(uid, gid)
