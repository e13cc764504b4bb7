"""Reads /proc about processes and CPUs. Tests replace ``root``.

A process that is gone is normal, not an error: functions about one process then return
None or an empty set.

While a process reaps its child, the kernel drops what it has cached of the child's folder.
A look-up in this folder waits for that, and it spins. So a real-time task that has
interrupted the parent on the same CPU spins until the kernel takes the CPU from it, 0.95 s
later. Functions about one process therefore check first that it was not reaped.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from cosched.core.decoding import Malformed, parse_integer, shown_text
from cosched.linux.processes.signals import Delivery, send

ROOT = Path("/")
#: The greatest process number of any kernel.
PID_MOST = 1 << 22

_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# The columns of /proc/stat in which a task or the kernel worked: user nice system irq
# softirq. Steal and guest (a part of user) are left out.
_BUSY_COLUMNS = (0, 1, 2, 5, 6)
#: The column of stolen time; empty where a virtual /proc lacks it.
_STEAL_COLUMN = slice(7, 8)
_PART_BYTES = 1 << 16
# Field numbers of /proc/PID/stat, counted from the one after "(comm)".
_STATE, _PARENT, _START_TICKS, _PENDING = 0, 1, 19, 28


def read_text(path: Path | str) -> str | None:
    """Returns a file's text; None if it is gone or forbidden.

    A daemon reads a file for each task again and again, so this does without the layers of
    a file object."""
    parts: list[bytes] = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while part := os.read(descriptor, _PART_BYTES):
                parts.append(part)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError, PermissionError):
        return None
    return shown_text(b"".join(parts))


def is_reaped(pid: int, root: Path = ROOT) -> bool:
    """Returns whether no process has this number, without a look-up in /proc."""
    return root == ROOT and send(pid, 0) is Delivery.ENDED


def read_of(pid: int, name: str, root: Path = ROOT) -> str | None:
    """Returns the text of a process's file in /proc; None if it is gone or forbidden."""
    if is_reaped(pid, root):
        return None
    return read_text(os.path.join(root, "proc", str(pid), name))


def integer(text: str | bytes) -> int:
    """Returns a decimal integer that the kernel has written. Raises OSError for other text:
    then the file is not of a kernel that this program knows."""
    try:
        return parse_integer(text, "", -(1 << 63), (1 << 64) - 1)
    except Malformed as error:
        raise OSError(errno.EBADMSG, f"text of the kernel{error}") from None


def _stat_fields(pid: int, root: Path) -> list[str] | None:
    text = read_of(pid, "stat", root)
    if not text:
        return None
    # comm may hold spaces and parentheses; the last ')' ends it.
    return text[text.rindex(")") + 1 :].split()


def _status_line(text: str | None, name: str) -> str | None:
    for line in (text or "").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return None


def start_ticks(pid: int, root: Path = ROOT) -> int | None:
    """Returns the process's start in ticks since boot; with the pid, its identity."""
    fields = _stat_fields(pid, root)
    return integer(fields[_START_TICKS]) if fields else None


def started_wall_ns(ticks: int) -> int:
    """Returns the start of a process with these ``start_ticks`` by the wall clock."""
    age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * _NS_PER_TICK
    return time.time_ns() - age_ns


def state(pid: int, root: Path = ROOT) -> str | None:
    """Returns the kernel's state letter: R, S, D, T (stopped), Z (dead, not reaped), ..."""
    fields = _stat_fields(pid, root)
    return fields[_STATE] if fields else None


def is_killed(pid: int, root: Path = ROOT) -> bool:
    """Returns whether a signal that ends the process is under way: the kernel then makes
    SIGKILL pending for its first thread."""
    fields = _stat_fields(pid, root)
    pending = integer(fields[_PENDING]) if fields else 0
    return bool(pending & 1 << (signal.SIGKILL - 1))


def parent(pid: int, root: Path = ROOT) -> int | None:
    """Returns the pid of the parent; None if it is outside this pid namespace."""
    fields = _stat_fields(pid, root)
    return integer(fields[_PARENT]) or None if fields else None


def children(pid: int, root: Path = ROOT) -> set[int]:
    """Returns the children that the threads of a process started, zombies included."""
    texts = [read_of(pid, f"task/{tid}/children", root) for tid in threads(pid, root)]
    return {integer(word) for text in texts for word in (text or "").split()}


def started_by(
    pid: int, most: int, belongs: Callable[[int], bool], root: Path = ROOT
) -> list[int]:
    """Returns the descendants of a process, parents first, without those that do not belong
    and without the descendants of these; at most ``most``."""
    found: list[int] = []
    parents = [pid]
    for parent in parents:  # the loop appends to the list
        for child in sorted(children(parent, root)):
            if len(found) == most:
                return found
            if belongs(child):
                found.append(child)
                parents.append(child)
    return found


def processes(root: Path = ROOT) -> Iterator[int]:
    """Yields all processes."""
    for name in os.listdir(root / "proc"):
        if name.isdecimal():
            yield integer(name)


def in_groups(groups: Collection[int]) -> list[int]:
    """Returns the processes in these process groups."""
    found = []
    for pid in processes() if groups else ():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) in groups:
                found.append(pid)
    return found


def process_uids(pid: int, root: Path = ROOT) -> tuple[int, int] | None:
    """Returns the real and the effective user id."""
    value = _status_line(read_of(pid, "status", root), "Uid")
    if not value:
        return None
    real, effective, *_ = value.split()
    return integer(real), integer(effective)


def threads(pid: int, root: Path = ROOT) -> list[int]:
    """Returns the thread ids of the process, ascending."""
    if is_reaped(pid, root):
        return []
    try:
        names = os.listdir(root / "proc" / str(pid) / "task")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
    return sorted(integer(name) for name in names)


def cpu_affinity(pid: int, root: Path = ROOT) -> frozenset[int]:
    """Returns the CPUs that any thread of the process may use; empty if it is gone.

    All threads count, because an MPI or OpenMP runtime binds each one to its own core.
    """
    cpus: set[int] = set()
    for tid in threads(pid, root):
        status = read_of(pid, f"task/{tid}/status", root)
        value = _status_line(status, "Cpus_allowed_list")
        cpus |= parse_cpu_list(value or "")
    return frozenset(cpus)


def parse_cpu_list(text: str) -> frozenset[int]:
    """Parses the kernel's list format: ``0-3,8,10-11``."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            cpus.update(range(integer(first), integer(last or first) + 1))
    return frozenset(cpus)


def cpu_busy_ns(root: Path = ROOT) -> dict[int, int]:
    """Returns the busy time since boot of each online CPU."""
    return {
        cpu: sum(ticks[column] for column in _BUSY_COLUMNS) * _NS_PER_TICK
        for cpu, ticks in _cpu_ticks(root).items()
    }


def cpu_stolen_ns(root: Path = ROOT) -> dict[int, int]:
    """Returns the time that a hypervisor took from each online CPU."""
    return {
        cpu: sum(ticks[_STEAL_COLUMN]) * _NS_PER_TICK
        for cpu, ticks in _cpu_ticks(root).items()
    }


def _cpu_ticks(root: Path) -> dict[int, list[int]]:
    """Returns the columns of each online CPU in /proc/stat."""
    found: dict[int, list[int]] = {}
    for line in (read_text(root / "proc" / "stat") or "").splitlines():
        name, *columns = line.split() or [""]
        if name.startswith("cpu") and name != "cpu":
            found[integer(name[3:])] = [integer(column) for column in columns]
    return found


def process_cpu_ns(pid: int) -> int | None:
    """Returns the CPU time of all threads of a live process, in nanoseconds.

    It reads the process's CPU clock, which any user may read. The clock id is part of the
    kernel's ABI: ``~pid << 3`` with 2 for "time on the CPU".
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)
    except OSError:
        return None
