"""Forks the stewards of a node's jobs. The keeper of a page is a steward without tasks.

A fork of this small process, which has no threads and has imported what stewards need,
takes a few milliseconds. The agent starts it once and passes it a socket for each job. It
also forks the processes that write the node's topology and remove the directories of jobs.
It has a spare: a process that becomes the next steward, so that a start does not wait for a
fork. The next spare is made when a steward has ended, or a while after the start.

It kills a steward that the agent names. Only this process reaps stewards, so a pid that it
kills is never that of another process.

It continues a steward that was stopped: its tasks may send it signals.

It adopts the orphans of stewards that have ended, and kills them: a steward that ended well
has left none but processes of other users. Where control groups can be made, each steward
makes one for its tasks, and the nursery ends it after the steward.

Work that no job waits for is done later if no process can be made for it now.

It ends when its agent has ended and no steward and no orphan is left. A steward that takes
too long then is killed.
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
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cosched.cluster.agent.forked import JOB, received_socket, serve_agent, wait_for_job
from cosched.cluster.agent.frames import (
    CannotStart,
    KillSteward,
    MakeSteward,
    RemoveTree,
    WriteTopology,
    decode_request,
    encode_frame,
)
from cosched.cluster.agent.steward.killing import JobPlace
from cosched.cluster.agent.topology import write_topology
from cosched.core.decoding import Malformed
from cosched.linux import proc
from cosched.linux.cgroups.killgroup import (
    end_group,
    find_place,
    make_name,
    remove_left_groups,
)
from cosched.linux.prctl import adopt_orphans
from cosched.linux.processes.descendants import (
    REAPED_AT_ONCE,
    describe_foreign,
    kill_descendants,
)
from cosched.linux.processes.signals import send
from cosched.start.streams import begin

#: A request has a path, at most.
_REQUEST_BYTES = 8192
#: Removes a tree of any depth; it follows no link of the user.
_REMOVE = ("rm", "-rf", "--one-file-system", "--")
#: How long after a start, or after the end of a spare, the next spare is made.
_SPARE_AFTER_S = 1.0
#: How long this process kills orphans before it does something else.
_ORPHANS_WITHIN_S = 0.5
#: An agent that ends waits at most this long until directories of jobs are removed.
_REMOVED_WITHIN_S = 5.0
#: The pause until work is tried again for which no process could be made.
_TRY_AFTER_S = 1.0
#: How long after it was continued a steward is continued again.
_CONTINUE_AFTER_S = 0.1


@dataclass(slots=True)
class _Child:
    """A process that this one forked. number: the steward's; 0 for another process.
    kill_at: when it is killed, by the monotonic clock. continue_at: when it is continued,
    after it was stopped. group: the name of the control group for its tasks."""

    number: int
    limit_s: float
    group: str = ""
    kill_at: float = math.inf
    continue_at: float = math.inf
    continued_at: float = -math.inf


@dataclass(frozen=True, slots=True)
class _Work:
    """Work that no job waits for. limit_s: how long it may go on after the agent's end."""

    do: Callable[[], object]
    limit_s: float


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
        self._waiting: deque[_Work] = deque()  # no process could be made for it
        self._try_at = math.inf
        self._agent_lives = True
        self._foreign: set[int] = set()  # orphans of other users
        self._place = find_place()  # where stewards make control groups
        self._groups = 0
        self._ended_groups: set[str] = set()
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
        if self._place is not None:
            remove_left_groups(self._place)
        self._make_spare()
        while self._agent_lives or self._children or self._has_orphans():
            for descriptor, _ in poller.poll(self._wait_ms()):
                if descriptor == self._ends:
                    os.read(self._ends, 4096)
                    self._reap()
                elif not self._serve():
                    poller.unregister(self._requests)
                    self._lose_agent()
            self._continue_stopped()
            self._kill_overdue()
            if time.monotonic() >= self._spare_at:
                self._make_spare()
            if time.monotonic() >= self._try_at:
                self._do_waiting()

    def _serve(self) -> bool:
        """Handles a request; returns False at the end of the agent."""
        data, descriptors, _, _ = socket.recv_fds(self._requests, _REQUEST_BYTES, 1)
        if not data:
            return False
        try:
            request = decode_request(data)
        except Malformed as error:
            print(f"nursery: {error}", file=sys.stderr, flush=True)
            return True
        match request:
            case MakeSteward() if descriptors:
                with received_socket(descriptors[0]) as agent:
                    self._make_steward(request, agent)
            case KillSteward(number):
                for pid, child in self._children.items():
                    if child.number == number:
                        send(pid, signal.SIGKILL)
            case WriteTopology(path):
                self._begin(_Work(lambda: write_topology(Path(os.fsdecode(path))), 0.0))
            case RemoveTree(path):
                remove = partial(os.execvp, _REMOVE[0], (*_REMOVE, path))
                self._begin(_Work(remove, _REMOVED_WITHIN_S))
        return True

    def _begin(self, work: _Work) -> None:
        """Forks a process for work, after that for which no process could be made."""
        self._waiting.append(work)
        self._do_waiting()

    def _do_waiting(self) -> None:
        """Forks processes for work until one fails; reports the first that fails."""
        is_reported, self._try_at = self._try_at < math.inf, math.inf
        while self._waiting:
            work = self._waiting[0]
            try:
                self._fork(_Child(0, work.limit_s), work.do)
            except OSError as error:
                self._try_at = time.monotonic() + _TRY_AFTER_S
                if not is_reported:
                    line = f"nursery: cannot make a process: {error.strerror}"
                    print(line, file=sys.stderr, flush=True)
                return
            self._waiting.popleft()

    def _make_steward(self, request: MakeSteward, agent: socket.socket) -> None:
        """Starts a steward, or reports to the agent that its job cannot start."""
        if self._use_spare(request, agent):
            return
        try:
            child = _Child(request.number, request.limit_s, self._group_name())
            found = self._place_of(child)
            self._fork(child, lambda: serve_agent(agent, found))
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
                child = _Child(0, 0.0, self._group_name())
                found = self._place_of(child)
                with theirs:
                    pid = self._fork(child, lambda: wait_for_job(theirs, ours, found))
            except OSError:  # a start will report it
                return
            made.pop_all()
        self._spare = _Spare(pid, ours)

    def _use_spare(self, request: MakeSteward, agent: socket.socket) -> bool:
        """Makes the spare a steward; returns False if no spare lives."""
        if self._spare is None:
            return False
        spare, self._spare = self._spare, None
        self._spare_at = time.monotonic() + _SPARE_AFTER_S
        with spare.requests:
            try:
                socket.send_fds(spare.requests, [JOB], [agent.fileno()])
            except OSError:  # it was killed, or there is no memory
                return False
        child = self._children[spare.pid]
        child.number, child.limit_s = request.number, request.limit_s
        return True

    def _group_name(self) -> str:
        self._groups += 1
        return make_name(self._groups)

    def _place_of(self, child: _Child) -> JobPlace | None:
        return None if self._place is None else (self._place, child.group)

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
        """Reads how children have ended. Orphans that fork and end without an end may not
        keep this process from its other work."""
        with contextlib.suppress(ChildProcessError):
            for _ in range(REAPED_AT_ONCE):
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    break
                if os.WIFSTOPPED(status):
                    self._note_stop(pid)
                else:
                    self._note_end(pid)
            else:
                self._come_again()
        self._kill_orphans()
        self._end_groups()

    def _come_again(self) -> None:
        """Makes the loop look at children again, after its other work."""
        os.write(self._ends_write, b"\0")

    def _note_end(self, pid: int) -> None:
        child = self._children.pop(pid, None)
        if child is None:
            return
        if child.group:
            self._ended_groups.add(child.group)
        if self._spare is not None and pid == self._spare.pid:
            self._end_spare()
            self._spare_at = time.monotonic() + _SPARE_AFTER_S
        else:
            self._spare_at = -math.inf

    def _kill_orphans(self) -> None:
        """Kills the orphans that are here, and names those that cannot be killed, once."""
        here = proc.children(os.getpid())
        if not here - set(self._children) - self._foreign:
            return
        left = kill_descendants(_ORPHANS_WITHIN_S, self._children)
        for pid in left.foreign - self._foreign:
            line = f"{describe_foreign(pid)} is left of a job: it cannot be killed here"
            print(f"nursery: {line}", file=sys.stderr, flush=True)
        self._foreign = left.foreign
        if left.ending:
            self._come_again()
        for pid in set(self._children) - proc.children(os.getpid()):  # reaped meanwhile
            self._note_end(pid)

    def _has_orphans(self) -> bool:
        return not proc.children(os.getpid()) <= self._foreign

    def _end_groups(self) -> None:
        """Ends the control groups of stewards that have ended. A group that is not empty
        yet is tried again at the next end of a process."""
        if self._place is None:
            return
        for name in list(self._ended_groups):
            try:
                if end_group(self._place, name):
                    self._ended_groups.discard(name)
            except OSError as error:
                self._ended_groups.discard(name)
                reason = f"{error.filename or name}: {error.strerror}"
                print(f"nursery: control group: {reason}", file=sys.stderr, flush=True)

    # --- stewards that are stopped --------------------------------------------------------

    def _note_stop(self, pid: int) -> None:
        """Handles a child that was stopped. It is continued at once, but not again and
        again without a pause."""
        child = self._children.get(pid)
        if child is not None:
            child.continue_at = max(
                time.monotonic(), child.continued_at + _CONTINUE_AFTER_S
            )

    def _continue_stopped(self) -> None:
        now = time.monotonic()
        for pid, child in self._children.items():
            if now < child.continue_at:
                continue
            if child.continued_at == -math.inf:
                line = f"process {pid} of this node was stopped by a signal: continues it"
                print(f"nursery: {line}", file=sys.stderr, flush=True)
            child.continue_at, child.continued_at = math.inf, now
            send(pid, signal.SIGCONT)

    # --- the end of the agent -------------------------------------------------------------

    def _lose_agent(self) -> None:
        self._agent_lives = False
        self._waiting.clear()  # the agent's next life asks for it again
        self._try_at = math.inf
        self._end_spare()
        now = time.monotonic()
        for child in self._children.values():
            child.kill_at = now + child.limit_s

    def _end_spare(self) -> None:
        if self._spare is not None:
            self._spare.requests.close()
            self._spare = None

    def _wait_ms(self) -> float | None:
        dues = (min(each.kill_at, each.continue_at) for each in self._children.values())
        first = min([self._spare_at, self._try_at, *dues])
        if first == math.inf:
            return None
        return max(0.0, first - time.monotonic()) * 1000 + 1

    def _kill_overdue(self) -> None:
        now = time.monotonic()
        for pid, child in self._children.items():
            if now >= child.kill_at:
                child.kill_at = math.inf
                send(pid, signal.SIGKILL)


def main() -> None:
    """Runs the nursery on the socket that is descriptor 0."""
    begin()
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)  # stewards may not hold the socket
    os.close(null)
    Nursery(requests).run()


if __name__ == "__main__":
    main()
