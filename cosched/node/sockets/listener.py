"""Listens at a Unix socket, and identifies the peer of each connection."""

from __future__ import annotations

import errno
import os
import resource
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cosched.core.units import NS_PER_MS
from cosched.linux import pidfd, proc
from cosched.linux.identity import peer_ids
from cosched.node.loop import Loop
from cosched.node.sockets.complaints import Complaints

BACKLOG = 512
#: How long no connection is accepted after the descriptors ran out.
PAUSE_NS = 100 * NS_PER_MS
#: A user may have at most one in this many of the daemon's descriptors.
USERS_SHARE = 16
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SO_PEERPIDFD = 77  # since Linux 6.5; socket has no name for it yet


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end, from the kernel."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """Returns the credentials of the process that connected, at that time."""
    return Peer(*peer_ids(connection))


def hold_peer(connection: socket.socket) -> int:
    """Returns a pidfd of the process that connected.

    Raises ProcessLookupError if it has ended or belongs to another user now, even if other
    processes share its connection. Kernels before 6.5 give only its pid. A reused pid may
    then name another process, but only one of the same user.
    """
    peer = peer_of(connection)
    fd = _peer_pidfd(connection, peer.pid)
    try:
        uids = proc.process_uids(peer.pid)
        # Checked last: the uids are those of this process only if it is still alive.
        if uids is None or set(uids) != {peer.uid} or pidfd.exited(fd):
            raise ProcessLookupError(
                errno.ESRCH, f"process {peer.pid} of uid {peer.uid} has ended"
            )
    except OSError:
        os.close(fd)
        raise
    return fd


def _peer_pidfd(connection: socket.socket, pid: int) -> int:
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4)
    except OSError as error:
        if error.errno in _OUT_OF_DESCRIPTORS:
            raise
        if error.errno != errno.ENOPROTOOPT:
            raise ProcessLookupError(errno.ESRCH, f"process {pid} has ended") from None
        return os.pidfd_open(pid)
    return int(struct.unpack("i", raw)[0])


def users_share() -> int:
    """Returns the most connections of one user to one socket."""
    return max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // USERS_SHARE)


class UnixListener:
    """Hands each new connection, non-blocking, to ``accepted``.

    kind: SOCK_STREAM or SOCK_SEQPACKET. mode: the file mode of the socket. most: the most
    connections of one user, except root and the daemon's user.
    """

    def __init__(
        self,
        path: Path,
        kind: int,
        loop: Loop,
        accepted: Callable[[socket.socket], None],
        *,
        mode: int,
        complaints: Complaints,
        most: int | None = None,
    ) -> None:
        self._path = path
        self._loop = loop
        self._accepted = accepted
        self._complaints = complaints
        self._most = most or users_share()
        self._open: dict[int, list[socket.socket]] = {}
        self._paused = False
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK)
        self._socket.bind(str(path))
        os.chmod(path, mode)
        self._socket.listen(BACKLOG)
        loop.watch(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Stops listening and removes the socket's name."""
        if not self._paused:
            self._loop.unwatch(self._socket.fileno())
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return  # the client closed it before
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS:
                raise
            self._pause(error)
            return
        if not self._admits(connection):
            connection.close()
            return
        connection.setblocking(False)
        self._accepted(connection)

    def _pause(self, error: OSError) -> None:
        """Stops accepting for a moment: waiting clients would keep the loop busy."""
        self._complaints.about(
            None, f"{self._path.name}: no new connections for now: {error.strerror}"
        )
        self._loop.unwatch(self._socket.fileno())
        self._paused = True
        self._loop.call_at(time.monotonic_ns() + PAUSE_NS, self._resume)

    def _resume(self) -> None:
        if self._socket.fileno() >= 0:
            self._paused = False
            self._loop.watch(self._socket.fileno(), self._accept)

    def _admits(self, connection: socket.socket) -> bool:
        uid = peer_of(connection).uid
        if uid in (0, os.geteuid()):
            return True
        held = self._open.setdefault(uid, [])
        if len(held) >= self._most or len(held) % 64 == 63:
            held[:] = [one for one in held if one.fileno() >= 0]
            if len(held) >= self._most:
                self._complaints.about(
                    uid, f"{self._path.name}: a user has {self._most} connections open"
                )
                return False
        held.append(connection)
        return True
