"""Priorities: daemons that the jobs cannot starve, tasks that get shorter, earlier turns.

**Daemons.** SCHED_FIFO at priority 1, if the user may have it, runs before every task of
every class. It is reset on fork, so that nothing a daemon starts inherits it. Otherwise
the lowest nice value allowed. Where the kernel groups tasks by session (autogroup), a
nice value counts only within the session, so the session's own is set as well if the
daemon leads it.

**Slice requests.** EEVDF lets a task ask for short turns (since Linux 6.12), 0.1 ms to
100 ms: the share is the same, in more and earlier pieces. A task at 1% of a CPU then
looks at its messages more often. The kernel ends a turn only where it chooses anew: when
something wakes up or yields on that CPU, and at the tick. Among tasks that only spin a
request shorter than a tick changes nothing. Kernels before 6.12 accept and ignore it.
"""

from __future__ import annotations

import ctypes
import os
import resource
from dataclasses import dataclass
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.units import format_duration
from cosched.linux import proc

SLICE_REQUEST_MIN_NS = 100_000
SLICE_REQUEST_MAX_NS = 100_000_000

_FIFO_PRIORITY = 1
_NICE_LOWEST = -20

# sched_setattr, sched_getattr: no wrapper in glibc before 2.41 nor in Python.
_SYSCALLS = {
    "x86_64": (314, 315),
    "aarch64": (274, 275),
    "riscv64": (274, 275),
    "loongarch64": (274, 275),
    "ppc64le": (355, 356),
    "s390x": (345, 346),
}


@dataclass(frozen=True, slots=True)
class Priority:
    """What a daemon got: ``name`` for a status line, ``why`` it is not better."""

    name: str
    why: str = ""


def raise_daemon_priority(root: Path = proc.ROOT) -> Priority:
    """The best priority that this process may have; affects the calling thread."""
    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    try:
        os.sched_setscheduler(0, policy, os.sched_param(_FIFO_PRIORITY))
    except OSError as error:
        why = f"SCHED_FIFO: {error.strerror}"
    else:
        return Priority(f"SCHED_FIFO {_FIFO_PRIORITY}")
    nice = _lower_nice()
    if nice < 0:
        why += _lower_autogroup_nice(nice, root)
    return Priority(f"nice {nice}", why)


def _lower_nice() -> int:
    """The lowest nice value that may be had, which is set."""
    limit = resource.getrlimit(resource.RLIMIT_NICE)[0]
    by_limit = _NICE_LOWEST if limit == resource.RLIM_INFINITY else 20 - limit
    now = os.getpriority(os.PRIO_PROCESS, 0)
    for nice in (_NICE_LOWEST, max(_NICE_LOWEST, by_limit)):
        if nice >= now:
            continue
        try:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
        except PermissionError:
            continue
        return nice
    return now


def _lower_autogroup_nice(nice: int, root: Path) -> str:
    """Does for the session what nice does within it; says what stood in the way."""
    enabled = proc.read_text(root / "proc/sys/kernel/sched_autogroup_enabled")
    if (enabled or "0").strip() == "0":
        return ""
    if os.getsid(0) != os.getpid():
        return "; nice counts only within the session: not its leader"
    try:
        (root / "proc/self/autogroup").write_text(str(nice))
    except OSError as error:
        return f"; autogroup: {error.strerror}"
    return ""


class _SchedAttr(ctypes.Structure):
    """struct sched_attr, its first version (48 bytes), which every kernel takes."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("sched_policy", ctypes.c_uint32),
        ("sched_flags", ctypes.c_uint64),
        ("sched_nice", ctypes.c_int32),
        ("sched_priority", ctypes.c_uint32),
        ("sched_runtime", ctypes.c_uint64),
        ("sched_deadline", ctypes.c_uint64),
        ("sched_period", ctypes.c_uint64),
    )


_libc = ctypes.CDLL(None, use_errno=True)
_KEPT_FLAGS = 0x01  # SCHED_FLAG_RESET_ON_FORK; others must not be passed back


def request_slice(pid: int, slice_ns: int, root: Path = proc.ROOT) -> bool:
    """Asks for turns of ``slice_ns`` for every thread of a process.

    Nice value and policy stay. Returns whether the kernel took it: False where it knows no
    such request, refuses it, the process is gone, or has no ordinary thread. Threads and
    children that the process starts later inherit it.
    """
    if not SLICE_REQUEST_MIN_NS <= slice_ns <= SLICE_REQUEST_MAX_NS:
        raise CoschedError(
            f"slice request {format_duration(slice_ns)}: must be "
            f"{format_duration(SLICE_REQUEST_MIN_NS)} to "
            f"{format_duration(SLICE_REQUEST_MAX_NS)}"
        )
    taken = [_request_of_thread(tid, slice_ns) for tid in proc.threads(pid, root)]
    return any(taken)


def slice_request(tid: int) -> int | None:
    """The slice that a thread has, as the kernel tells it; None if it tells nothing."""
    attr = _get_attr(tid)
    return int(attr.sched_runtime) or None if attr is not None else None


def _request_of_thread(tid: int, slice_ns: int) -> bool:
    attr = _get_attr(tid)
    if attr is None or attr.sched_policy not in (os.SCHED_OTHER, os.SCHED_BATCH):
        return False
    attr.size = ctypes.sizeof(attr)
    attr.sched_flags &= _KEPT_FLAGS
    attr.sched_runtime = slice_ns
    number = _SYSCALLS[os.uname().machine][0]
    if _libc.syscall(number, tid, ctypes.byref(attr), 0) != 0:
        return False
    return slice_request(tid) == slice_ns


def _get_attr(tid: int) -> _SchedAttr | None:
    numbers = _SYSCALLS.get(os.uname().machine)
    attr = _SchedAttr()
    if numbers is None:
        return None
    size = ctypes.sizeof(attr)
    if _libc.syscall(numbers[1], tid, ctypes.byref(attr), size, 0) != 0:
        return None
    return attr
