"""Forks the stewards of a node's jobs.

A fork of this small process, which has no threads and has imported what stewards need,
takes a few milliseconds. The agent starts it once and passes it a socket for each job. It
also forks the process that writes the node's topology.

It adopts the orphans of stewards that have ended, and kills them: a steward that ended well
has left none. It ends when its agent has ended and its last steward is gone.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from cosched.cluster.agent.steward.steward import run_steward
from cosched.cluster.agent.topology import write_topology
from cosched.linux.prctl import adopt_orphans

#: A path, at most.
_REQUEST_BYTES = 4096


class Nursery:
    """requests: a socket (SOCK_SEQPACKET) from which stewards' sockets come."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._stewards: set[int] = set()
        self._ends, self._ends_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Serves until the agent and all stewards have ended."""
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
        agent_lives = True
        while agent_lives or self._stewards:
            for descriptor, _ in poller.poll():
                if descriptor == self._ends:
                    os.read(self._ends, 4096)
                    self._reap()
                elif not self._serve():
                    agent_lives = False
                    poller.unregister(self._requests)

    def _serve(self) -> bool:
        """Forks a steward for the socket that comes, or a process that writes the topology
        to the path that comes; False at the end of the agent."""
        data, descriptors, _, _ = socket.recv_fds(self._requests, _REQUEST_BYTES, 1)
        if not data:
            return False
        if descriptors:
            self._fork(lambda: run_steward(socket.socket(fileno=descriptors[0])))
            os.close(descriptors[0])
        else:
            self._fork(lambda: write_topology(Path(os.fsdecode(data))))
        return True

    def _fork(self, work: Callable[[], object]) -> None:
        pid = os.fork()
        if pid == 0:
            self._become(work)
        self._stewards.add(pid)

    def _become(self, work: Callable[[], object]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._requests.fileno(), self._ends, self._ends_write):
            os.close(each)
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
                return
            if pid == 0:
                break
            self._stewards.discard(pid)
        for orphan in children(os.getpid()) - self._stewards:
            os.kill(orphan, signal.SIGKILL)


def children(pid: int) -> set[int]:
    """Returns the children of a process of one thread, zombies included."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except FileNotFoundError:
        return set()
    return {int(word) for word in text.split()}


def main() -> None:
    """Runs the nursery on the socket that is descriptor 0."""
    Nursery(socket.socket(fileno=os.dup(0))).run()


if __name__ == "__main__":
    main()
