"""A listening Unix socket of a daemon's loop."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cosched.node.loop import Loop

BACKLOG = 512


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end, in the kernel's words."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """The credentials of the process that connected."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return Peer(*struct.unpack("3i", raw))


class UnixListener:
    """Hands each new connection, non-blocking, to ``accepted``.

    kind: SOCK_STREAM or SOCK_SEQPACKET. mode: who may connect.
    """

    def __init__(
        self,
        path: Path,
        kind: int,
        loop: Loop,
        accepted: Callable[[socket.socket], None],
        *,
        mode: int,
    ) -> None:
        self._path = path
        self._loop = loop
        self._accepted = accepted
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK)
        self._socket.bind(str(path))
        os.chmod(path, mode)
        self._socket.listen(BACKLOG)
        loop.watch(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Stops listening and removes the socket's name."""
        self._loop.unwatch(self._socket.fileno())
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except BlockingIOError:
            return  # it gave up before its turn came
        connection.setblocking(False)
        self._accepted(connection)
