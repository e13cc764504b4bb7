"""Serves the registration socket (CMDREG): tasks register at launch and in MPI_Init.

The kernel identifies the process: SO_PEERCRED and a pidfd, because a connection may outlive
its process. The message only names the user's job and the rank. The answer carries the
job's region and bell as descriptors.
"""

from __future__ import annotations

import array
import errno
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cosched.core.complaints import Complaints
from cosched.core.decoding import decode_text
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.core.node.knowledge import UNKNOWN, Expectation
from cosched.core.units import NS_PER_S
from cosched.rundir.paths import check_job_name
from cosched.service.listener import Peer, UnixListener, hold_peer, peer_of
from cosched.service.loop import Loop
from cosched.service.pacing import Lane, Pacer
from cosched.shm._native import ffi, lib
from cosched.shm.region_values import CARRIERS, Phase, read_expectation, read_limits

HELLO_TIMEOUT_NS = 2 * NS_PER_S


class TaskHello(NamedTuple):
    """The fields that a task sends about itself."""

    job: str  #: the name of the user's job
    rank: int  #: the process's rank in MPI_COMM_WORLD
    world: int  #: the number of ranks in MPI_COMM_WORLD; 0: unknown
    carrier: int  #: the carrier of the sender's status, a key of ``CARRIERS``
    memory_bytes: int  #: the memory that the job needs on this node; 0: not declared
    submitted_ns: int = 0  #: the time of submission since 1970; 0: unknown
    expectation: Expectation = UNKNOWN  #: how long like jobs were scheduled
    phase: Phase = Phase.TASK  #: the part of the process in the job
    #: The resources that limit the job, as its user named them; empty: none.
    limited_by: tuple[str, ...] = ()


class Welcome(NamedTuple):
    """The answer to a registered task."""

    slot: int  #: the task's index in the region's table of tasks
    region_bytes: int  #: the size of the job's region
    region_fd: int  #: the job's region; sent only in MPI_Init
    bell_fd: int  #: the job's bell, for writing; sent only in MPI_Init


_NO_HELLO = TaskHello("", 0, 0, lib.COSCHED_CARRIER_NONE, 0)


class RegistrationRefused(CoschedError):
    """The reason why a task cannot register, with the errno for its shim."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.errno = code


def parse_hello(data: bytes) -> TaskHello:
    """Parses a ``cosched_hello``. Raises RegistrationRefused for another version."""
    hello = ffi.new("struct cosched_hello *")
    if len(data) != ffi.sizeof(hello[0]):
        raise RegistrationRefused(errno.EPROTO, "not a registration of this version")
    ffi.memmove(hello, data, len(data))
    if hello.magic != lib.COSCHED_HELLO_MAGIC or hello.abi != lib.COSCHED_ABI:
        raise RegistrationRefused(
            errno.EPROTO,
            f"the shim speaks version {hello.abi}, the daemon {lib.COSCHED_ABI}; "
            "run 'cosched up --restart' on the node, or build the shim: cosched shim build",
        )
    try:
        job = check_job_name(decode_text(bytes(ffi.string(hello.job, 64)), "job name"))
    except CoschedError as error:
        raise RegistrationRefused(errno.EINVAL, str(error)) from None
    if hello.carrier not in CARRIERS:
        raise RegistrationRefused(errno.EINVAL, "unknown carrier of the sender's status")
    if hello.phase not in list(Phase):
        raise RegistrationRefused(errno.EINVAL, "unknown phase of a process")
    if hello.rank < 0 or hello.world < 0:
        raise RegistrationRefused(errno.EINVAL, "a rank or a world below 0")
    return TaskHello(
        job,
        hello.rank,
        hello.world,
        hello.carrier,
        hello.memory_bytes,
        hello.submitted_ns,
        read_expectation(hello.expectation),
        Phase(hello.phase),
        read_limits(hello.limited_by),
    )


def _pack_welcome(error: int, slot: int, region_bytes: int, reason: str) -> bytes:
    welcome = ffi.new("struct cosched_welcome *")
    welcome.magic, welcome.abi = lib.COSCHED_HELLO_MAGIC, lib.COSCHED_ABI
    welcome.error, welcome.slot, welcome.region_bytes = error, slot, region_bytes
    encoded = reason.encode()[: lib.COSCHED_REASON_BYTES - 1]
    welcome.reason[0 : len(encoded)] = encoded
    return bytes(ffi.buffer(welcome))


Register = Callable[[Peer, TaskHello, int], Welcome]
"""Makes the process of a pidfd a task of its job, or raises RegistrationRefused. The caller
closes the pidfd."""


class Applicant:
    """A task that wants to register; its connection is open until it gets an answer."""

    def __init__(self, connection: socket.socket, loop: Loop, hello: TaskHello) -> None:
        self.peer = peer_of(connection)
        self.hello = hello
        self._connection = connection
        self._loop = loop
        self._watched = False

    def answer(self, register: Register) -> None:
        """Registers the task and sends the result."""
        try:
            pidfd = hold_peer(self._connection)
        except OSError as error:
            code = error.errno or errno.ESRCH
            self.refuse(RegistrationRefused(code, error.strerror or str(error)))
            return
        try:
            welcome = register(self.peer, self.hello, pidfd)
        except RegistrationRefused as refused:
            self.refuse(refused)
            return
        finally:
            os.close(pidfd)
        answer = _pack_welcome(0, welcome.slot, welcome.region_bytes, "")
        is_task = self.hello.phase is Phase.TASK
        self._send(answer, [welcome.region_fd, welcome.bell_fd] if is_task else [])
        self.leave()

    def refuse(self, refused: RegistrationRefused) -> None:
        """Sends the refusal; the task runs without coscheduling."""
        self._send(_pack_welcome(-refused.errno, 0, 0, str(refused)))
        self.leave()

    def await_answer(self, gone: Callable[[], None]) -> None:
        """Keeps the connection; ``gone()`` is called if the task stops waiting."""

        def ready() -> None:
            self.leave()
            gone()

        self._loop.watch(self._connection.fileno(), ready)
        self._watched = True

    def ask_to_wait(self, reason: str) -> None:
        """Sends the reason for the wait; this also shows that the daemon is alive."""
        self._send(_pack_welcome(-errno.EINPROGRESS, 0, 0, reason))

    def leave(self) -> None:
        """Closes the connection."""
        if self._watched:
            self._watched = False
            self._loop.unwatch(self._connection.fileno())
        self._connection.close()

    def _send(self, answer: bytes, fds: Sequence[int] = ()) -> None:
        rights = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        )
        try:
            self._connection.sendmsg([answer], rights)
        except OSError:
            # It died or is stopped: its pidfd or the connection's end reports that. Or it
            # cannot take the descriptors: then it runs without coscheduling.
            return


class RegistrationSocket:
    """Accepts registrations and hands each applicant to ``admit``, in its user's turn.

    ``listener``: the socket with its name.
    """

    def __init__(
        self,
        path: Path,
        loop: Loop,
        admit: Callable[[Applicant], None],
        *,
        mode: int,
        complaints: Complaints,
        pacer: Pacer,
    ) -> None:
        self._loop = loop
        self._admit = admit
        self._complaints = complaints
        self._pacer = pacer
        self._lane = Lane()
        self.listener = UnixListener(
            path,
            socket.SOCK_SEQPACKET,
            loop,
            self._accepted,
            mode=mode,
            complaints=complaints,
            pacer=pacer,
        )

    def _accepted(self, connection: socket.socket, peer: Peer) -> None:
        fd = connection.fileno()
        silent = True

        def ready() -> None:
            nonlocal silent
            try:
                data = connection.recv(4096)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            silent = False
            self._pacer.unwatch(fd)
            what = "registration: it failed; its connection is closed"
            if not self._complaints.attempt(
                peer.uid, what, lambda: self._take(connection, data)
            ):
                self._pacer.note_malformed()
                connection.close()

        def give_up() -> None:
            # A user who rests may have sent a hello that is to be read later.
            if silent and not _has_data(connection):
                self._pacer.unwatch(fd)
                connection.close()

        self._pacer.watch(peer.uid, self._lane, fd, ready)
        self._loop.call_at(time.monotonic_ns() + HELLO_TIMEOUT_NS, give_up)

    def _take(self, connection: socket.socket, data: bytes) -> None:
        if not data:
            connection.close()
            return
        try:
            hello = parse_hello(data)
        except RegistrationRefused as refused:
            self._pacer.note_malformed()
            Applicant(connection, self._loop, _NO_HELLO).refuse(refused)
            return
        self._admit(Applicant(connection, self._loop, hello))


def _has_data(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except (BlockingIOError, ConnectionError):
        return False
