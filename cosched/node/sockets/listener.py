"""A listening Unix socket of a daemon's loop, and who is at the other end."""

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
from cosched.node.loop import Loop
from cosched.node.sockets.complaints import Complaints

BACKLOG = 512
#: How long nobody is let in after the descriptors ran out.
PAUSE_NS = 100 * NS_PER_MS
#: Of the descriptors that the daemon may have, one in so many is each user's at most.
USERS_SHARE = 16
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SO_PEERPIDFD = 77  # since Linux 6.5; socket has no name for it yet


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end, in the kernel's words."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """The credentials of the process that connected, as they were then."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return Peer(*struct.unpack("3i", raw))


def hold_peer(connection: socket.socket) -> int:
    """A pidfd of the process that connected: of this one, never of a namesake.

    Raises ProcessLookupError if it has ended, or is another user's by now, though others
    may have got hold of its connection. Kernels before 6.5 tell only its number: what is
    found under that may be another process, but one of the same user.
    """
    peer = peer_of(connection)
    fd = _peer_pidfd(connection, peer.pid)
    try:
        uids = proc.process_uids(peer.pid)
        # Asked last: what /proc told was of this process only if it still is there.
        if uids is None or set(uids) != {peer.uid} or pidfd.exited(fd):
            raise ProcessLookupError(
                errno.ESRCH, f"process {peer.pid} of uid {peer.uid} is not there any more"
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
    """How many connections to one socket a user may have open."""
    return max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // USERS_SHARE)


class UnixListener:
    """Hands each new connection, non-blocking, to ``accepted``.

    kind: SOCK_STREAM or SOCK_SEQPACKET. mode: who may connect. A user other than root and
    the daemon's own who has ``most`` connections open gets no further one.
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
            return  # it gave up before its turn came
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
        """Whoever knocks would keep the loop busy until there are descriptors again."""
        self._complaints.about(
            None, f"{self._path.name}: nobody is let in for a moment: {error.strerror}"
        )
        self._loop.unwatch(self._socket.fileno())
        self._paused = True
        self._loop.call_at(time.monotonic_ns() + PAUSE_NS, self._go_on)

    def _go_on(self) -> None:
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
