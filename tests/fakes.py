"""Provides a scheduler daemon that decides nothing, for tests of the shim.

``FakeNode`` accepts registrations on the real socket and shares real regions and bells.
The test chooses which job is scheduled and reads the requests of the tasks. Several
FakeNodes in one process, each with its own node name, stand for the nodes of one run.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cosched.shm._native import ffi, lib
from cosched.shm.objects import remove_object
from cosched.shm.region import JobRegion, Request

BEAT_S = 0.1
_numbers = itertools.count()


@dataclass(frozen=True)
class FakeTask:
    """One registered task: the fields of its registration, and its pid from the kernel."""

    slot: int
    pid: int
    rank: int
    world: int
    carrier: int


@dataclass
class FakeJob:
    """One job on one fake node."""

    name: str
    region: JobRegion
    bell: Path
    bell_fd: int
    epoch: int = 1
    tasks: list[FakeTask] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def schedule(self, scheduled: bool) -> None:
        """Publishes a new epoch."""
        self.epoch += 1
        self.region.publish_status(self.epoch, scheduled)

    def counters(self, rank: int) -> dict[str, int]:
        """Returns the counters of this rank's task; they stay after the task has ended."""
        return self.region.counters(next(t.slot for t in self.tasks if t.rank == rank))

    def take_requests(self) -> list[Request]:
        """Returns all requests so far."""
        self.requests += self.region.take_requests()
        return self.requests

    def codes(self) -> list[int]:
        """Returns the codes of all requests, ``lib.COSCHED_CMD*``, in order of arrival."""
        return [request.code for request in self.take_requests()]


class FakeNode:
    """One node's scheduler daemon; a context manager.

    ``scheduled``: the first status of each job. ``on_request``: called with job and request
    as soon as the bell rings. ``refuse``: the errno that answers each registration.
    ``prepare``: called with a job before its first task gets the answer. ``abi``: the
    version in each answer.
    """

    def __init__(
        self,
        run_dir: Path,
        node: str,
        *,
        scheduled: bool = True,
        on_request: Callable[[FakeJob, Request], None] | None = None,
        refuse: int = 0,
        prepare: Callable[[FakeJob], None] | None = None,
        abi: int = lib.COSCHED_ABI,
    ) -> None:
        self.directory = run_dir / node
        self.directory.mkdir(parents=True, exist_ok=True)
        self.node = node
        self.jobs: dict[str, FakeJob] = {}
        self.launched: list[tuple[int, int, int]] = []  # pid, rank, world
        self.beating = True
        self._scheduled, self._on_request, self._refuse = scheduled, on_request, refuse
        self._prepare, self._abi = prepare, abi
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.register_socket))
        self._listener.listen()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def register_socket(self) -> Path:
        return self.directory / "register.sock"

    def __enter__(self) -> FakeNode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops the node, removes regions, bells and socket; a second call is safe."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._thread.join()
        self._selector.close()
        self._listener.close()
        self.register_socket.unlink(missing_ok=True)
        for job in self.jobs.values():
            os.close(job.bell_fd)
            job.bell.unlink()
            job.region.unlink()
            job.region.close()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            if self.beating:
                for job in self.jobs.values():
                    job.region.beat()
            for key, _ in self._selector.select(BEAT_S / 4):
                key.data()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        with connection, contextlib.suppress(OSError):
            self._register(connection)

    def _register(self, connection: socket.socket) -> None:
        hello = ffi.new("struct cosched_hello *")
        data = connection.recv(ffi.sizeof("struct cosched_hello"))
        if len(data) != ffi.sizeof("struct cosched_hello"):
            return
        ffi.memmove(hello, data, len(data))
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid, uid, gid = struct.unpack("iii", credentials)
        welcome = ffi.new("struct cosched_welcome *")
        welcome.magic, welcome.abi = lib.COSCHED_HELLO_MAGIC, self._abi
        if self._refuse:
            welcome.error = -self._refuse
            welcome.reason = b"refused by a fake"
            connection.send(bytes(ffi.buffer(welcome)))
            return
        if hello.phase == lib.COSCHED_PHASE_LAUNCHED:
            self.launched.append((pid, hello.rank, hello.world))
            connection.send(bytes(ffi.buffer(welcome)))
            return
        name = ffi.string(hello.job).decode()
        job = self.jobs.get(name) or self._new_job(name, uid, gid)
        task = FakeTask(len(job.tasks), pid, hello.rank, hello.world, hello.carrier)
        job.region.occupy(
            task.slot,
            pid=pid,
            start_ticks=0,
            rank=task.rank,
            world=task.world,
            carrier=task.carrier,
        )
        job.tasks.append(task)
        welcome.slot, welcome.region_bytes = task.slot, JobRegion.size()
        fds = [job.region.fd, job.bell_fd]
        socket.send_fds(connection, [bytes(ffi.buffer(welcome))], fds)

    def _new_job(self, name: str, uid: int, gid: int) -> FakeJob:
        region_name = f"/cosched-test-{os.getpid()}-{next(_numbers)}"
        remove_object(region_name)
        region = JobRegion.create(region_name, name, uid, gid)
        region.publish_status(1, self._scheduled)
        bell = self.directory / f"bell.{name}"
        os.mkfifo(bell, 0o600)
        job = FakeJob(name, region, bell, os.open(bell, os.O_RDWR | os.O_NONBLOCK))
        self._selector.register(job.bell_fd, selectors.EVENT_READ, lambda: self._rang(job))
        if self._prepare is not None:
            self._prepare(job)
        self.jobs[name] = job
        return job

    def _rang(self, job: FakeJob) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(job.bell_fd, 4096)
        if self._on_request is not None:
            for request in job.region.take_requests():
                job.requests.append(request)
                self._on_request(job, request)


@contextlib.contextmanager
def fake_nodes(run_dir: Path, *nodes: str, **options: object) -> Iterator[list[FakeNode]]:
    """Yields one FakeNode per name, all with the same options."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(FakeNode(run_dir, node, **options))  # type: ignore[arg-type]
            for node in nodes
        ]


def eventually(condition: Callable[[], object], within_s: float = 60.0) -> bool:
    """Returns whether ``condition`` becomes true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
