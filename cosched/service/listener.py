"""Listens at a Unix socket, and identifies the peer of each connection.

Accepting costs time, before the user is known. It counts in the user's account. A user who
connects so often that even this is too much is shut out for a while (``door``).
"""

from __future__ import annotations

import errno
import os
import resource
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cosched.core.complaints import Complaints
from cosched.core.units import NS_PER_MS
from cosched.linux import pidfd, proc
from cosched.linux.identity import peer_ids
from cosched.service.allowance import Allowance
from cosched.service.door import Door
from cosched.service.loop import Loop
from cosched.service.pacing import Pacer

BACKLOG = 512
#: How long no connection is accepted after the descriptors ran out.
PAUSE_NS = 100 * NS_PER_MS
#: A user may have at most one in this many of the daemon's descriptors.
USERS_SHARE = 16
#: The most connections of one user to one socket, on a machine with many descriptors.
USERS_MOST = 4096
#: Connections that are accepted in one round of the loop.
BATCH = 32
#: The factor by which accepting counts: to wait for a connection, to count it and to end it
#: takes longer than to accept it.
COUNTS = 3
#: Time for accepting that a user may take at once, as it counts; some thousand connections.
CONNECTING_NS = 100 * NS_PER_MS
#: The least time for which a user is shut out.
SHUT_NS = 50 * NS_PER_MS
#: The wait of all clients after accepting, in its durations, if no user can be shut out.
ALL_WAIT = 3
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SO_PEERPIDFD = 77  # since Linux 6.5; socket has no name for it yet


class Peer(NamedTuple):
    """The process at the other end, as the kernel reports it."""

    pid: int  #: in this process's pid namespace
    uid: int  #: its effective user when it connected
    gid: int  #: its effective group when it connected


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
    share = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // USERS_SHARE
    return min(USERS_MOST, max(64, share))


class UnixListener:
    """Hands each new connection, non-blocking, and its peer to ``accepted``.

    kind: SOCK_STREAM or SOCK_SEQPACKET. mode: the file mode of the socket. pacer: has the
    accounts of users. most: the most connections of one user, except users without an
    account.
    """

    def __init__(
        self,
        path: Path,
        kind: int,
        loop: Loop,
        accepted: Callable[[socket.socket, Peer], None],
        *,
        mode: int,
        complaints: Complaints,
        pacer: Pacer,
        most: int | None = None,
    ) -> None:
        self._path = path
        self._loop = loop
        self._accepted = accepted
        self._complaints = complaints
        self._pacer = pacer
        self._most = most or users_share()
        self._open: dict[int, list[socket.socket]] = {}
        self._connecting = Allowance(CONNECTING_NS)
        self._shut: set[int] = set()
        self._crowded = False  # a user connects too often, and cannot be shut out
        self._paused = False
        self._kind = kind
        self._mode = mode
        self._listen()

    def _listen(self) -> None:
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, self._kind | socket.SOCK_NONBLOCK)
        self._socket.bind(str(self._path))
        os.chmod(self._path, self._mode)
        self._door = Door(self._path, self._mode)
        self._shut.clear()
        self._file = self._path.stat()
        self._socket.listen(BACKLOG)
        self._loop.watch(self._socket.fileno(), self._accept)

    def renew(self) -> Path | None:
        """Listens again if the socket's name was removed; then it returns the name."""
        if self._path.exists():
            return None
        self._stop()
        self._listen()
        return self._path

    def _stop(self) -> None:
        if not self._paused:
            self._loop.unwatch(self._socket.fileno())
        self._paused = False
        self._socket.close()

    def close(self) -> None:
        """Stops listening and removes the socket's name, unless it is another socket's."""
        self._stop()
        if not self.is_replaced():
            self._path.unlink(missing_ok=True)

    def is_replaced(self) -> bool:
        """Returns whether another socket has the name."""
        try:
            return not os.path.samestat(self._path.stat(), self._file)
        except FileNotFoundError:
            return False

    def _accept(self) -> None:
        began_ns = time.monotonic_ns()
        for _ in range(BATCH):
            if not self._accept_one():
                break
        if self._crowded and not self._paused:
            self._crowded = False
            self._pause(ALL_WAIT * (time.monotonic_ns() - began_ns))

    def _accept_one(self) -> bool:
        """Accepts a connection; returns False if there is none for now."""
        began_ns = time.monotonic_ns()
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return False  # no more; or the client closed it before
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS:
                raise
            self._complaints.about(
                None,
                f"{self._path.name}: no new connections for now",
                error.strerror or str(error),
            )
            self._pause(PAUSE_NS)
            return False
        peer = peer_of(connection)
        if not self._admits(connection, peer.uid):
            connection.close()
        else:
            connection.setblocking(False)
            what = f"{self._path.name}: a connection failed"
            if not self._complaints.attempt(
                peer.uid, what, lambda: self._accepted(connection, peer)
            ):
                connection.close()
        if not self._pacer.is_exempt(peer.uid):
            self._charge(peer.uid, began_ns)
        return True

    def _charge(self, uid: int, began_ns: int) -> None:
        now_ns = time.monotonic_ns()
        took_ns = COUNTS * (now_ns - began_ns)
        self._pacer.charge(uid, took_ns)
        rest_ns = self._connecting.charge(uid, took_ns, now_ns)
        if rest_ns and uid not in self._shut:
            self._shut_out(uid, now_ns + max(rest_ns, SHUT_NS))

    def _shut_out(self, uid: int, until_ns: int) -> None:
        self._complaints.about(
            uid, f"{self._path.name}: a user connects too often, and is refused for moments"
        )
        try:
            self._door.shut(uid)
        except OSError:
            self._crowded = True
            return
        self._shut.add(uid)
        self._loop.call_at(until_ns, lambda: self._admit_again(uid))

    def _admit_again(self, uid: int) -> None:
        now_ns = time.monotonic_ns()
        rest_ns = self._connecting.rest_ns(uid, now_ns)
        if rest_ns:  # for connections that the user had made before
            self._loop.call_at(now_ns + rest_ns, lambda: self._admit_again(uid))
            return
        self._shut.discard(uid)
        if self._socket.fileno() >= 0:
            self._door.open(uid)

    def _pause(self, for_ns: int) -> None:
        """Stops accepting for a moment: waiting clients would keep the loop busy."""
        self._loop.unwatch(self._socket.fileno())
        self._paused = True
        self._loop.call_at(time.monotonic_ns() + for_ns, self._resume)

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self._loop.watch(self._socket.fileno(), self._accept)

    def _admits(self, connection: socket.socket, uid: int) -> bool:
        if self._pacer.is_exempt(uid):
            return True
        held = self._open.get(uid)
        if held is None:
            self._forget_gone()
            held = self._open[uid] = []
        if len(held) >= self._most or len(held) % 64 == 63:
            held[:] = [one for one in held if one.fileno() >= 0]
            if len(held) >= self._most:
                self._complaints.about(
                    uid, f"{self._path.name}: a user has {self._most} connections open"
                )
                return False
        held.append(connection)
        return True

    def _forget_gone(self) -> None:
        """Forgets users without a connection, so that their number stays bounded."""
        for uid, held in list(self._open.items()):
            if not any(one.fileno() >= 0 for one in held):
                del self._open[uid]
