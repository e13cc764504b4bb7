"""Forks the stewards of a node's jobs.

A fork of this small process, which has no threads and has imported what stewards need,
takes a few milliseconds. The agent starts it once and passes it a socket for each job. It
also forks the process that writes the node's topology. It has a spare: a process that
becomes the next steward, so that a start does not wait for a fork. The next spare is made
when a steward has ended, or a while after the start.

It kills a steward that the agent names. Only this process reaps stewards, so a pid that it
kills is never that of another process.

It adopts the orphans of stewards that have ended, and kills them: a steward that ended well
has left none. It ends when its agent has ended and no steward and no orphan is left. A
steward that takes too long then is killed.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cosched.cluster.agent.frames import (
    CannotStart,
    KillSteward,
    MakeSteward,
    WriteTopology,
    decode_request,
    encode_frame,
)
from cosched.cluster.agent.steward.steward import run_steward
from cosched.cluster.agent.topology import write_topology
from cosched.linux.prctl import adopt_orphans

#: A request has a path, at most.
_REQUEST_BYTES = 8192
#: Comes to a spare with the socket of its job.
_JOB = b"job"
#: How long after a start, or after the end of a spare, the next spare is made.
_SPARE_AFTER_S = 1.0


@dataclass(slots=True)
class _Child:
    """A process that this one forked. number: the steward's; 0 for another process.
    kill_at: when it is killed, by the monotonic clock."""

    number: int
    limit_s: float
    kill_at: float = math.inf


@dataclass(frozen=True, slots=True)
class _Spare:
    """A process that waits at the other end of a socket for the job of its steward."""

    pid: int
    requests: socket.socket


class Nursery:
    """requests: a socket (SOCK_SEQPACKET) from which the agent's requests come."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._children: dict[int, _Child] = {}  # by pid
        self._spare: _Spare | None = None
        self._spare_at = math.inf
        self._agent_lives = True
        self._ends, self._ends_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Serves until the agent, all stewards and all their descendants have ended."""
        adopt_orphans()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The agent decides. Slurm and systemd send SIGTERM to all processes at once.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(self._ends_write, warn_on_full_buffer=False)
        poller = select.poll()
        poller.register(self._requests, select.POLLIN)
        poller.register(self._ends, select.POLLIN)
        gc.collect()
        gc.freeze()  # or a collection in a steward would copy all of this process
        self._make_spare()
        while self._agent_lives or self._children or children(os.getpid()):
            for descriptor, _ in poller.poll(self._wait_ms()):
                if descriptor == self._ends:
                    os.read(self._ends, 4096)
                    self._reap()
                elif not self._serve():
                    poller.unregister(self._requests)
                    self._lose_agent()
            self._kill_overdue()
            if time.monotonic() >= self._spare_at:
                self._make_spare()

    def _serve(self) -> bool:
        """Takes a request; False at the end of the agent."""
        data, descriptors, _, _ = socket.recv_fds(self._requests, _REQUEST_BYTES, 1)
        if not data:
            return False
        match decode_request(data):
            case MakeSteward() as request if descriptors:
                with _received(descriptors[0]) as agent:
                    self._make_steward(request, agent)
            case KillSteward(number):
                for pid, child in self._children.items():
                    if child.number == number:
                        os.kill(pid, signal.SIGKILL)
            case WriteTopology(path):
                with contextlib.suppress(OSError):  # tasks do without it
                    self._fork(
                        _Child(0, 0.0), lambda: write_topology(Path(os.fsdecode(path)))
                    )
        return True

    def _make_steward(self, request: MakeSteward, agent: socket.socket) -> None:
        """Starts a steward, or reports to the agent that its job cannot start."""
        if self._use_spare(request, agent):
            return
        try:
            child = _Child(request.number, request.limit_s)
            self._fork(child, lambda: run_steward(agent))
        except OSError as error:  # too many processes, or no memory
            reason = f"cannot make a process: {error.strerror}"
            print(f"nursery: {reason}", file=sys.stderr, flush=True)
            with contextlib.suppress(OSError):
                agent.send(encode_frame(CannotStart(reason, again=True)))

    def _make_spare(self) -> None:
        """Forks a spare if there is none. Stewards start without one, too."""
        self._spare_at = math.inf
        if self._spare is not None or not self._agent_lives:
            return
        with contextlib.ExitStack() as made:
            try:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                made.callback(ours.close)
                with theirs:
                    pid = self._fork(_Child(0, 0.0), lambda: _wait_for_job(theirs, ours))
            except OSError:  # a start will report it
                return
            made.pop_all()
        self._spare = _Spare(pid, ours)

    def _use_spare(self, request: MakeSteward, agent: socket.socket) -> bool:
        """Lets the spare become a steward; False if there is none that lives."""
        if self._spare is None:
            return False
        spare, self._spare = self._spare, None
        self._spare_at = time.monotonic() + _SPARE_AFTER_S
        with spare.requests:
            try:
                socket.send_fds(spare.requests, [_JOB], [agent.fileno()])
            except OSError:  # it was killed, or there is no memory
                return False
        self._children[spare.pid] = _Child(request.number, request.limit_s)
        return True

    def _fork(self, child: _Child, work: Callable[[], object]) -> int:
        pid = os.fork()
        if pid == 0:
            self._become(work)
        self._children[pid] = child
        return pid

    def _become(self, work: Callable[[], object]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._requests.fileno(), self._ends, self._ends_write):
            os.close(each)
        if self._spare is not None:
            self._spare.requests.close()
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:  # noqa: BLE001  (a fork must not return)
            print(f"steward {os.getpid()}: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._children.pop(pid, None)
            if self._spare is not None and pid == self._spare.pid:
                self._end_spare()
                self._spare_at = time.monotonic() + _SPARE_AFTER_S
            else:
                self._spare_at = -math.inf
        for orphan in children(os.getpid()) - set(self._children):
            os.kill(orphan, signal.SIGKILL)

    # --- the end of the agent -------------------------------------------------------------

    def _lose_agent(self) -> None:
        self._agent_lives = False
        self._end_spare()
        now = time.monotonic()
        for child in self._children.values():
            child.kill_at = now + child.limit_s

    def _end_spare(self) -> None:
        if self._spare is not None:
            self._spare.requests.close()
            self._spare = None

    def _wait_ms(self) -> float | None:
        first = min([self._spare_at, *(each.kill_at for each in self._children.values())])
        if first == math.inf:
            return None
        return max(0.0, first - time.monotonic()) * 1000 + 1

    def _kill_overdue(self) -> None:
        now = time.monotonic()
        for pid, child in self._children.items():
            if now >= child.kill_at:
                child.kill_at = math.inf
                os.kill(pid, signal.SIGKILL)


def _wait_for_job(requests: socket.socket, other: socket.socket) -> None:
    """Runs in a spare: waits for an agent's socket, then runs the steward of its job.
    other: the nursery's end; a spare ends when the nursery closes it."""
    other.close()
    data, descriptors, _, _ = socket.recv_fds(requests, len(_JOB), 1)
    requests.close()
    if data and descriptors:
        with _received(descriptors[0]) as agent:
            run_steward(agent)


def _received(descriptor: int) -> socket.socket:
    """Returns the socket of a descriptor that was received. Programs do not inherit it."""
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)


def children(pid: int) -> set[int]:
    """Returns the children of a process of one thread, zombies included."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except FileNotFoundError:
        return set()
    return {int(word) for word in text.split()}


def main() -> None:
    """Runs the nursery on the socket that is descriptor 0."""
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)  # stewards may not hold the socket
    os.close(null)
    Nursery(requests).run()


if __name__ == "__main__":
    main()
