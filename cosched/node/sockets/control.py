"""Serves the control socket: status, settings, leases and the end of the daemon.

Each request and each answer is one JSON object on one line. All users who may connect may
read. Root and the daemon's own user may change settings. A job's owner may change that job.
Some changes last as long as the connection: ``give_back`` or its end undoes them.

A client harms only itself. An invalid request gets an error. An unfinished line gets no
answer. A client that does not read loses its answer. A user with many requests waits
(``Pacer``).
"""

from __future__ import annotations

import enum
import os
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from cosched.core.complaints import Complaints
from cosched.core.decoding import JsonDecoder, Malformed
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.core.units import NS_PER_S
from cosched.service.listener import Peer, UnixListener
from cosched.service.loop import Loop
from cosched.service.pacing import Lane, Pacer

LINE_MAX = 65536
NOTHING = memoryview(b"")
#: How long a line may take to arrive, or an answer to be read.
LINE_NS = 10 * NS_PER_S

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any]]
#: Also takes the user's uid from the kernel, and checks the user's rights.
OwnerHandler = Callable[[Mapping[str, Any], int], Mapping[str, Any]]


class Held(NamedTuple):
    """The answer to a client that holds a change."""

    answer: Mapping[str, Any]  #: the fields to send to the client
    #: Undoes the change, when the client gives it back or its connection ends.
    undo: Callable[[], None]


_Plain = str | bool | int | float | None
_requests: JsonDecoder[dict[str, _Plain | dict[str, _Plain]]] = JsonDecoder(
    dict[str, _Plain | dict[str, _Plain]], "a request", LINE_MAX
)

#: Also takes the client's pid from the kernel.
HeldHandler = Callable[[Mapping[str, Any], int], Held]


class ControlSocket:
    """Serves requests ``{"op": NAME, ...}`` from a table of handlers.

    ``listener``: the socket with its name.
    ``leases`` counts the connections with a lease; ``on_lease_end`` is called when one of
    them closes.
    """

    def __init__(
        self,
        path: Path,
        loop: Loop,
        *,
        mode: int,
        readers: Mapping[str, Handler],
        writers: Mapping[str, Handler],
        owners: Mapping[str, OwnerHandler],
        held: Mapping[str, HeldHandler],
        on_lease_end: Callable[[], None],
        complaints: Complaints,
        pacer: Pacer,
        line_ns: int = LINE_NS,
    ) -> None:
        self.leases = 0
        self._loop = loop
        self._readers = readers
        self._writers = writers
        self._owners = owners
        self._held = held
        self._on_lease_end = on_lease_end
        self._complaints = complaints
        self._line_ns = line_ns
        self._pacer = pacer
        self._lane = Lane()
        self.listener = UnixListener(
            path,
            socket.SOCK_STREAM,
            loop,
            self._accepted,
            mode=mode,
            complaints=complaints,
            pacer=pacer,
        )

    def _accepted(self, connection: socket.socket, peer: Peer) -> None:
        self._listen(_Client(connection, peer))

    def _listen(self, client: _Client) -> None:
        client.watched = _Watched.READING
        fd = client.connection.fileno()
        read = partial(self._attempt, client, self._read)
        self._pacer.watch(client.uid, self._lane, fd, read)

    def _attempt(self, client: _Client, work: Callable[[_Client], None]) -> None:
        """Does ``work`` for a client, whose connection is closed if that fails."""
        what = "control: a request failed; its connection is closed"
        if not self._complaints.attempt(client.uid, what, lambda: work(client)):
            self._pacer.note_malformed()
            self._drop(client)

    def _read(self, client: _Client) -> None:
        try:
            data = client.connection.recv(LINE_MAX)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        client.pending += data
        if not data:
            self._drop(client)
        elif b"\n" in client.pending:
            self._unwatch(client)
            self._serve(client)
        elif len(client.pending) > LINE_MAX:
            self._complaints.about(client.uid, "control: a line without end")
            self._drop(client)
        else:
            self._time_line(client)

    def _serve(self, client: _Client) -> None:
        """Answers one request; later requests of the client wait."""
        line, _, client.pending = client.pending.partition(b"\n")
        answer = self._answer(client, line)
        client.unread = memoryview(msgspec.json.encode(answer) + b"\n")
        self._send(client)

    def _send(self, client: _Client) -> None:
        """Sends as much of the answer as fits; sends the rest later."""
        try:
            client.unread = client.unread[client.connection.send(client.unread) :]
        except BlockingIOError:
            pass
        except ConnectionError:
            self._drop(client)
            return
        if not client.unread:
            self._unwatch(client)
            self._continue(client)
        elif client.watched is _Watched.NOT:
            client.watched = _Watched.SENDING
            client.line_since_ns = time.monotonic_ns()
            send = partial(self._attempt, client, self._send)
            self._loop.watch_room(client.connection.fileno(), send)
            self._time_line(client)

    def _continue(self, client: _Client) -> None:
        """Continues with the next request after an answer."""
        client.unread = NOTHING  # an empty slice would keep the whole answer in memory
        client.line_since_ns = time.monotonic_ns()
        if b"\n" in client.pending:
            serve = partial(self._attempt, client, self._serve)
            self._pacer.submit(client.uid, self._lane, serve)
            return
        self._listen(client)
        if client.pending:
            self._time_line(client)

    def _time_line(self, client: _Client) -> None:
        """Starts the time limit of a line, unless it runs already."""
        if client.timed:
            return
        client.line_since_ns = time.monotonic_ns()

        def look() -> None:
            client.timed = False
            if client.watched is _Watched.NOT or not (client.pending or client.unread):
                return  # closed, or being served; the next line is timed then
            if time.monotonic_ns() < client.line_since_ns + self._line_ns:
                arm()
                return
            what = "an answer was not read" if client.unread else "a line was not finished"
            self._complaints.about(client.uid, f"control: {what}")
            self._drop(client)

        def arm() -> None:
            client.timed = True
            self._loop.call_at(client.line_since_ns + self._line_ns, look)

        arm()

    def _answer(self, client: _Client, line: bytes) -> Mapping[str, Any]:
        request = parse_request(line)
        if request is None:
            self._pacer.note_malformed()
            return {"error": "not a request: one JSON object with an 'op' a line"}
        operation = request["op"]
        if operation == "lease":
            if not client.lease:
                client.lease = True
                self.leases += 1
            return {"ok": True}
        if operation == "give_back":
            client.give_back()
            return {"ok": True}
        try:
            if operation in self._readers:
                return self._readers[operation](request)
            if operation in self._owners:
                return self._owners[operation](request, client.uid)
            if operation in (*self._writers, *self._held):
                if client.uid not in (0, os.geteuid()):
                    return {"error": f"'{operation}' is for root and the daemon's own user"}
                if operation in self._writers:
                    return self._writers[operation](request)
                held = self._held[operation](request, client.pid)
                client.undo.append(held.undo)
                return held.answer
        except Malformed as error:
            self._pacer.note_malformed()
            return {"error": str(error)}
        except CoschedError as error:
            return {"error": str(error)}
        except OSError as error:  # out of descriptors; a later request may succeed
            self._complaints.about(client.uid, f"control: '{operation}'", str(error))
            return {"error": f"not now: {error.strerror or error}"}
        self._pacer.note_malformed()
        return {"error": f"unknown op '{operation}'"}

    def _drop(self, client: _Client) -> None:
        self._unwatch(client)
        client.connection.close()
        client.give_back()
        if client.lease:
            self.leases -= 1
            self._on_lease_end()

    def _unwatch(self, client: _Client) -> None:
        fd = client.connection.fileno()
        if client.watched is _Watched.READING:
            self._pacer.unwatch(fd)
        elif client.watched is _Watched.SENDING:
            self._loop.unwatch(fd)
        client.watched = _Watched.NOT


def parse_request(line: bytes) -> Mapping[str, Any] | None:
    """Returns the request in a line, or None if it is invalid.

    A request is an object of plain values, or of objects of plain values. All of it can be
    repeated in an answer."""
    try:
        request = _requests.decode(line)
    except Malformed:
        return None
    return request if isinstance(request.get("op"), str) else None


class _Watched(enum.Enum):
    """The input or the room that the loop waits for."""

    NOT = enum.auto()
    READING = enum.auto()
    SENDING = enum.auto()


class _Client:
    """A connection and its user.

    pending: received bytes of unfinished lines. unread: the rest of the answer. timed: a
    time limit runs, from line_since_ns. lease: it has one. undo: undoes the changes that it
    holds, in their order."""

    def __init__(self, connection: socket.socket, peer: Peer) -> None:
        self.connection = connection
        self.uid, self.pid = peer.uid, peer.pid
        self.pending = b""
        self.unread = NOTHING
        self.watched = _Watched.NOT
        self.timed = False
        self.line_since_ns = 0
        self.lease = False
        self.undo: list[Callable[[], None]] = []

    def give_back(self) -> None:
        """Undoes the changes that the client holds, the last one first."""
        while self.undo:
            self.undo.pop()()
