"""Links this process, as a task of its job, to the node's scheduler daemon.

``task`` is the only instance in the process. The C files of ``cosched/shm`` do the work,
for the C interposer as well. Everything fails open: a task that could not register counts
as scheduled, traps no message and lets MPI wait.

The task is the only writer of its counters. Threads that race may lose a count; the
counters are for people, and no decision depends on them.

Limit: while a scheduled task waits, it takes the interpreter lock once a test, where MPI
would wait without it. Other threads of the program still run.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from cosched.shm._native import ffi, lib
from mpi_shim.wrapper.task.environment import Environment, text

T = TypeVar("T")

# After so many tests (some 20 us) a wait that only spins yields the CPU between two tests,
# as MPICH does in its blocking calls.
TESTS_BEFORE_YIELD = 50

# A task whose waits are all too short for the clock still calls ``on_waited`` this often.
WAITS_PER_CALL = 64


class Task:
    """The link, the counters that it leads to, and how the task waits.

    ``attached``: the task is registered. ``prefix`` and ``shadow``: how the status travels;
    set once, before the first message, and alike on all ranks. ``policy``: how a scheduled
    task waits (``struct cosched_wait_policy``). ``on_waited``: called after waits, with
    CLOCK_MONOTONIC. ``on_presence``: called with the task's presence (cosched/task.h) once
    it is known, and again when the registration is over. ``yield_cpu``: sched_yield, for
    tests to replace. ``environment``: None until the task is configured.
    """

    def __init__(self, yield_cpu: Callable[[], object] = os.sched_yield) -> None:
        self.attached = False
        self.prefix = self.shadow = False
        self.policy: Any = ffi.new("struct cosched_wait_policy *")
        self.on_waited: Callable[[int], None] | None = None
        self.on_presence: Callable[[int], None] | None = None
        self.environment: Environment | None = None
        self._yield_cpu = yield_cpu
        self._waits = 0
        self._link: Any = ffi.new("struct cosched_link *")
        lib.cosched_link_open(self._link)
        self._counters: Any = self._link.counters

    @property
    def link(self) -> Any:
        """The ``struct cosched_link``."""
        return self._link

    def waited_counter(self) -> Any:
        """Returns a pointer to the time in which this task has waited, in ns; NULL if it is
        not attached."""
        return ffi.addressof(self._counters, "waited_ns") if self.attached else ffi.NULL

    @property
    def waits(self) -> bool:
        """Whether the wrapper waits in place of the library's blocking calls."""
        return self.attached or self.policy.kind != lib.COSCHED_WAIT_SPIN

    # Registration

    def configure(self, environment: Environment) -> None:
        """Takes the carrier of the status and the wait policy from the environment."""
        carrier = environment.data.task.carrier
        self.prefix = carrier == lib.COSCHED_CARRIER_PREFIX
        self.shadow = carrier == lib.COSCHED_CARRIER_SHADOW and environment.has_job
        self.policy = ffi.addressof(environment.data, "wait")
        self.environment = environment  # owns the policy
        if environment.data.verbose:
            for line in environment.warnings:
                warn(line)

    def register(self, environment: Environment, rank: int, world: int) -> bool:
        """Registers the task (CMDREG). Returns once the node has the job's memory; False on
        failure, with one line on standard error if COSCHED_VERBOSE is 1."""
        if self.attached:
            return True
        data, link = environment.data, self._link
        data.task.rank, data.task.world = rank, world
        data.task.on_memory_wait = lib.cosched_wrapper_on_memory_wait
        error = lib.cosched_attach(
            link,
            data.socket_path,
            ffi.addressof(data, "task"),
            lib.COSCHED_ATTACH_TIMEOUT_MS,
        )
        self.attached, self._counters = error == 0, link.counters
        if error:
            if error == -errno.ENOMEM and link.reason[0] != b"\0":
                warn(text(link.reason))  # one task of a node gets this reason
            line = f"rank {rank} runs on its own: {text(link.reason)} "
            line += f"({text(data.socket_path)})"
        else:
            line = (
                f"rank {rank} of {world} registered as task {link.slot} of job "
                f"{text(data.task.job)} on {text(data.node)}, status by "
                f"{text(lib.cosched_environment_carrier_name(data.task.carrier))}"
            )
        if data.verbose:
            warn(line)
        self.report_presence(link.presence)
        return self.attached

    def report_presence(self, presence: int) -> None:
        """Calls ``on_presence``."""
        if self.on_presence is not None:
            self.on_presence(presence)

    def deregister(self) -> None:
        """Deregisters the task (CMDOUT). A second call does nothing."""
        if self.attached:
            lib.cosched_detach(self._link)
            self.attached, self._counters = False, self._link.counters

    def abandon(self) -> None:
        """Drops the link: for a forked child, which is not the task."""
        if self.attached:
            lib.cosched_abandon(self._link)
            self.attached, self._counters = False, self._link.counters

    # Messages

    def status(self) -> int:
        """Returns the status byte to send: 1 while scheduled."""
        return int(lib.cosched_is_scheduled(self._link)) if self.attached else 1

    def arrived(self, sender_status: int, user_bytes: int = 0) -> None:
        """Counts a message whose sender had this status; posts CMDSCH if it is due."""
        counters = self._counters
        counters.received += 1
        counters.bytes_received += user_bytes
        lib.cosched_arrived(self._link, sender_status)

    def count_sent(self, user_bytes: int) -> None:
        """Counts a message that carries the status, or goes with one beside it."""
        counters = self._counters
        counters.sent += 1
        counters.bytes_sent += user_bytes

    def count_collective(self) -> None:
        """Counts a collective call whose ranks have the wrapper."""
        self._counters.collectives += 1

    def mark(self) -> None:
        """Counts an iteration of the program."""
        self._counters.marks += 1

    def count_published(self) -> None:
        """Counts a change of status that was sent to a peer (``told``)."""
        self._counters.told += 1

    def count_foreign(self) -> None:
        """Counts a message that came without a status byte."""
        self._counters.foreign += 1

    # Waits

    def wait(self, poll: Callable[[], T], block: Callable[[], T]) -> T:
        """Returns the first true result of ``poll``; or ``block()`` if the library is to
        wait."""
        if not self.waits:
            return block()
        result = poll()
        if result:
            return result
        with Wait(self) as waiting:
            while not result:
                waiting.pass_time()
                result = poll()
        return result

    def look(self, poll: Callable[[], T]) -> T:
        """Returns ``poll()``, for a call that does not block."""
        result = poll()
        if not result:
            self.looked()
        return result

    def looked(self) -> None:
        """Records that no message was there: one found later has arrived in between."""
        if self.attached:
            lib.cosched_looked(self._link)

    def pass_time(self, wait: Any) -> None:
        """Passes the time between two tests of ``wait`` (``struct cosched_wait``)."""
        slept = lib.cosched_pass_time(self._link, self.policy, wait)
        if not slept and wait.turns > TESTS_BEFORE_YIELD:
            self._yield_cpu()

    def end_wait(self, wait: Any) -> None:
        """Counts a finished wait."""
        now_ns = int(lib.cosched_count_wait(self._link, wait))
        self._waits += 1
        if self.on_waited is not None and (now_ns or self._waits % WAITS_PER_CALL == 0):
            self.on_waited(now_ns or time.monotonic_ns())


class Wait:
    """One wait of ``task``, from its first test that found nothing to its last."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._wait = ffi.new("struct cosched_wait *")

    def __enter__(self) -> Wait:
        return self

    def __exit__(self, *_: object) -> None:
        self._task.end_wait(self._wait)

    def pass_time(self) -> None:
        """Sleeps if the task is unscheduled; otherwise does as COSCHED_WAIT asks."""
        self._task.pass_time(self._wait)


def say(line: str) -> None:
    """Writes one line about the whole job, as the interposer does."""
    sys.stderr.write(f"cosched: {line}\n")


def warn(line: str) -> None:
    """Writes one line on standard error, as the interposer does."""
    # In one write: the ranks of a node share the stream.
    sys.stderr.write(f"cosched: pid {os.getpid()}: {line}\n")


task = Task()


@ffi.def_extern(name="cosched_wrapper_on_memory_wait")  # type: ignore[untyped-decorator]
def _wait_for_memory(reason: Any) -> None:
    if reason[0] != b"\0":
        warn(text(reason))
    task.report_presence(lib.COSCHED_PRESENT)
