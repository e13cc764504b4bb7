"""This process as a task of its job: the link to the node's scheduler daemon.

The C runtime of ``cosched/shm/task.c`` does the work; the interposer uses the same
code. Everything here fails open: a task that could not register reads as scheduled,
traps nothing and waits as MPI itself waits.

``task`` below is the process's only instance; the rest of the wrapper asks it for the
status to send, tells it what arrived, and lets it pause.

Counters have one writer, this process. Threads that race may lose a count; they are
shown to people, no decision depends on them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpi_shim.wrapper.task.environment import WaitPolicy

ATTACH_TIMEOUT_MS = 2000


class Task:
    """The link, and the counters that it leads to.

    ``attached``: a daemon answers for this task. ``carrier``: how the status travels, and
    ``prefix``: in front of each message; settled once, before the first message, and the
    same on all ranks. ``on_waited`` is called after each wait with CLOCK_MONOTONIC.
    """

    def __init__(self) -> None:
        self.attached = False
        self.carrier = "none"
        self.wait = WaitPolicy()
        self.on_waited: Callable[[int], None] | None = None
        self._ffi: Any = None
        self._lib: Any = None
        self._link: Any = None
        self._counters: Any = None

    @property
    def prefix(self) -> bool:
        """Whether messages carry the status byte."""
        return self.carrier == "prefix"

    @property
    def waits(self) -> bool:
        """Whether the wrapper waits in place of the library's blocking calls."""
        return self.attached or self.wait.kind != "spin"

    def register(
        self,
        socket: Path,
        job: str,
        rank: int,
        world: int,
        *,
        memory_bytes: int = 0,
        submitted_ns: int = 0,
        verbose: bool = False,
    ) -> bool:
        """CMDREG. False on failure; standard error has more if ``verbose``.

        ``memory_bytes`` is what the job needs on this node, ``submitted_ns`` when it was
        submitted (since 1970); 0 if it does not say. Returns when the node has so much.
        """
        if self.attached:
            return True
        reason = self._attach(socket, job, (rank, world), memory_bytes, submitted_ns)
        if verbose and reason:
            complain(f"task {rank} of job {job} is not registered: {reason}")
        elif verbose:
            complain(
                f"rank {rank} of {world} registered as task {self._link.slot} of job "
                f"{job}, status by {self.carrier}"
            )
        return self.attached

    def _attach(
        self,
        socket: Path,
        job: str,
        place: tuple[int, int],
        memory_bytes: int,
        submitted_ns: int,
    ) -> str:
        try:
            from cosched.shm._native import ffi, lib
        except ImportError as error:
            return str(error)
        link = ffi.new("struct cosched_link *")
        carrier = {
            "prefix": lib.COSCHED_CARRIER_PREFIX,
            "shadow": lib.COSCHED_CARRIER_SHADOW,
        }.get(self.carrier, lib.COSCHED_CARRIER_NONE)
        name = ffi.new("char[]", job.encode())
        part = ffi.new("struct cosched_part *")
        part.job, part.carrier = name, carrier
        part.rank, part.world = place
        part.memory_bytes, part.submitted_ns = memory_bytes, submitted_ns
        if lib.cosched_attach(link, str(socket).encode(), part, ATTACH_TIMEOUT_MS):
            return str(ffi.string(link.reason).decode(errors="replace"))
        self._ffi, self._lib, self._link = ffi, lib, link
        self._counters = ffi.addressof(link.task.counters)
        self.attached = True
        return ""

    def deregister(self) -> None:
        """CMDOUT. Once is enough, more does no harm."""
        if self.attached:
            self.attached, self._counters = False, None
            self._lib.cosched_detach(self._link)

    def abandon(self) -> None:
        """Forgets the link: for a forked child, which is not the task."""
        if self.attached:
            self.attached, self._counters = False, None
            self._lib.cosched_abandon(self._link)

    def status(self) -> int:
        """The status byte to send: 1 while scheduled."""
        if not self.attached:
            return 1
        return int(self._lib.cosched_is_scheduled(self._link))

    def new_wait(self) -> Any:
        """What ``linger`` is to know of one wait; the wait is counted."""
        if self._counters is None:
            return None
        self._counters.waits += 1
        return self._ffi.new("struct cosched_spell *")

    def linger(self, spell: Any) -> bool:
        """Between two looks at a message: sleeps a little, and says so, if the task is
        unscheduled, or if it waits long and another job wants the CPU."""
        return self.attached and self._lib.cosched_linger(self._link, spell) == 1

    def is_attended(self) -> bool:
        """Whether a daemon lives that knows of other jobs."""
        return self.attached and bool(self._lib.cosched_is_attended(self._link))

    def is_contended(self) -> bool:
        """Whether another job wants the CPUs of this one; an attended task knows."""
        return bool(self._lib.cosched_is_contended(self._link))

    def count_waited(self, since_ns: int, now_ns: int) -> None:
        """A wait is over."""
        if self._counters is not None:
            self._counters.waited_ns += now_ns - since_ns
        if self.on_waited is not None:
            self.on_waited(now_ns)

    def count_told(self) -> None:
        """A peer was told of a change of status."""
        if self._counters is not None:
            self._counters.told += 1

    def count_nap(self) -> None:
        """A scheduled waiter slept for the good of others."""
        if self._counters is not None:
            self._counters.naps += 1

    def looked(self) -> None:
        """A look at a message found none: one found later has come in between."""
        if self.attached:
            self._lib.cosched_looked(self._link)

    def arrived(self, sender_status: int, user_bytes: int) -> None:
        """Takes note of a message whose sender had this status; CMDSCH if it is due."""
        counters = self._counters
        if counters is not None:
            counters.received += 1
            counters.bytes_received += user_bytes
            self._lib.cosched_arrived(self._link, sender_status)

    def count_sent(self, user_bytes: int) -> None:
        """A message went out whose sender's status travels."""
        counters = self._counters
        if counters is not None:
            counters.sent += 1
            counters.bytes_sent += user_bytes

    def count_foreign(self) -> None:
        """A message came without a status byte."""
        if self._counters is not None:
            self._counters.foreign += 1


def complain(line: str) -> None:
    """One line for people, where COSCHED_VERBOSE asked for it."""
    # In one piece, since the ranks of a node share the stream.
    sys.stderr.write(f"cosched: {line}\n")


task = Task()
