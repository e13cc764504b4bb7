"""The control socket: status, settings, leases and the end of the daemon.

One JSON object a line, one line for each answer. Reading is open to whoever may connect;
changing is for root and the daemon's own user; what concerns one job is for its owner, too.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from cosched.core.errors import CoschedError
from cosched.node.listener import UnixListener, peer_of
from cosched.node.loop import Loop

LINE_MAX = 65536

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any]]
#: Also gets the uid of who asks, as the kernel has it, and refuses him what is not his.
OwnerHandler = Callable[[Mapping[str, Any], int], Mapping[str, Any]]


class ControlSocket:
    """Serves requests ``{"op": NAME, ...}`` from a table of handlers.

    ``leases`` counts the connections that asked for one; ``on_lease_end`` is called when
    one of them closes.
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
        on_lease_end: Callable[[], None],
    ) -> None:
        self.leases = 0
        self._loop = loop
        self._readers = readers
        self._writers = writers
        self._owners = owners
        self._on_lease_end = on_lease_end
        self._listener = UnixListener(
            path, socket.SOCK_STREAM, loop, self._accepted, mode=mode
        )

    def close(self) -> None:
        """Answers nobody any more."""
        self._listener.close()

    def _accepted(self, connection: socket.socket) -> None:
        # Non-blocking: answers are small and the readers local, but a reader that stops
        # reading must not stop the daemon.
        client = _Client(connection)
        self._loop.watch(connection.fileno(), lambda: self._serve(client))

    def _serve(self, client: _Client) -> None:
        try:
            data = client.connection.recv(LINE_MAX)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        client.pending += data
        if not data or len(client.pending) > LINE_MAX:
            self._drop(client)
            return
        *lines, client.pending = client.pending.split(b"\n")
        for line in lines:
            answer = self._answer(client, line)
            try:
                client.connection.sendall(msgspec.json.encode(answer) + b"\n")
            except (BlockingIOError, ConnectionError):
                self._drop(client)
                return

    def _answer(self, client: _Client, line: bytes) -> Mapping[str, Any]:
        try:
            request = json.loads(line)
            operation = request["op"]
        except (ValueError, TypeError, KeyError):
            return {"error": "not a request: one JSON object with an 'op' a line"}
        if operation == "lease":
            if not client.lease:
                client.lease = True
                self.leases += 1
            return {"ok": True}
        try:
            if operation in self._readers:
                return self._readers[operation](request)
            if operation in self._owners:
                uid = peer_of(client.connection).uid
                return self._owners[operation](request, uid)
            if operation in self._writers:
                if peer_of(client.connection).uid not in (0, os.geteuid()):
                    return {"error": f"'{operation}' is for root and the daemon's own user"}
                return self._writers[operation](request)
        except CoschedError as error:
            return {"error": str(error)}
        return {"error": f"unknown op '{operation}'"}

    def _drop(self, client: _Client) -> None:
        self._loop.unwatch(client.connection.fileno())
        client.connection.close()
        if client.lease:
            self.leases -= 1
            self._on_lease_end()


class _Client:
    """A connection, what it has sent of an unfinished line, and whether it leases."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.pending = b""
        self.lease = False
