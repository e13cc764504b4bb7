"""What /proc says about processes and CPUs. ``root`` is replaceable for tests.

A process that is gone is an everyday event here, not an error: functions about one
process return None (or an empty set) for it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

ROOT = Path("/")

_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# Of /proc/stat's user nice system idle iowait irq softirq: the columns in which a task
# or the kernel of this machine worked. Steal and guest (part of user) are left out.
_BUSY_COLUMNS = (0, 1, 2, 5, 6)
#: The column after these, or nothing where /proc is made up without it.
_STEAL_COLUMN = slice(7, 8)
# Field numbers of /proc/PID/stat, counted from the one after "(comm)".
_STATE, _PARENT, _START_TICKS = 0, 1, 19


def read_text(path: Path) -> str | None:
    """A file's text, None when it (or the process it is about) is gone or not ours."""
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError, PermissionError):
        return None


def _stat_fields(pid: int, root: Path) -> list[str] | None:
    text = read_text(root / "proc" / str(pid) / "stat")
    if not text:
        return None
    # comm may hold spaces and parentheses; the last ')' ends it.
    return text[text.rindex(")") + 1 :].split()


def _status_line(path: Path, name: str) -> str | None:
    text = read_text(path)
    for line in (text or "").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return None


def start_ticks(pid: int, root: Path = ROOT) -> int | None:
    """When the process started, in ticks since boot: with the pid, its identity."""
    fields = _stat_fields(pid, root)
    return int(fields[_START_TICKS]) if fields else None


def started_wall_ns(ticks: int) -> int:
    """When a process with these ``start_ticks`` started, by the wall clock as it is set."""
    age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * _NS_PER_TICK
    return time.time_ns() - age_ns


def state(pid: int, root: Path = ROOT) -> str | None:
    """The kernel's state letter: R, S, D, T (stopped), Z (dead, not yet reaped), ..."""
    fields = _stat_fields(pid, root)
    return fields[_STATE] if fields else None


def parent(pid: int, root: Path = ROOT) -> int | None:
    """The pid of the parent; None also for one that this pid namespace cannot name."""
    fields = _stat_fields(pid, root)
    return int(fields[_PARENT]) or None if fields else None


def process_uids(pid: int, root: Path = ROOT) -> tuple[int, int] | None:
    """The real and the effective user id."""
    value = _status_line(root / "proc" / str(pid) / "status", "Uid")
    if not value:
        return None
    real, effective, *_ = value.split()
    return int(real), int(effective)


def threads(pid: int, root: Path = ROOT) -> list[int]:
    """Thread ids of the process, ascending."""
    try:
        names = os.listdir(root / "proc" / str(pid) / "task")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
    return sorted(int(name) for name in names)


def cpu_affinity(pid: int, root: Path = ROOT) -> frozenset[int]:
    """CPUs that any thread of the process may run on; empty for a process that is gone.

    All threads, because an MPI or OpenMP runtime binds each to a core of its own.
    """
    task = root / "proc" / str(pid) / "task"
    cpus: set[int] = set()
    for tid in threads(pid, root):
        value = _status_line(task / str(tid) / "status", "Cpus_allowed_list")
        cpus |= parse_cpu_list(value or "")
    return frozenset(cpus)


def parse_cpu_list(text: str) -> frozenset[int]:
    """The kernel's list format: ``0-3,8,10-11``."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def cpu_busy_ns(root: Path = ROOT) -> dict[int, int]:
    """For each CPU that is online, how long it has worked since boot."""
    return {
        cpu: sum(ticks[column] for column in _BUSY_COLUMNS) * _NS_PER_TICK
        for cpu, ticks in _cpu_ticks(root).items()
    }


def cpu_stolen_ns(root: Path = ROOT) -> dict[int, int]:
    """For each CPU that is online, how long a hypervisor ran others in its place."""
    return {
        cpu: sum(ticks[_STEAL_COLUMN]) * _NS_PER_TICK
        for cpu, ticks in _cpu_ticks(root).items()
    }


def _cpu_ticks(root: Path) -> dict[int, list[int]]:
    """The columns of each CPU that is online in /proc/stat."""
    found: dict[int, list[int]] = {}
    for line in (read_text(root / "proc" / "stat") or "").splitlines():
        name, *columns = line.split() or [""]
        if name.startswith("cpu") and name != "cpu":
            found[int(name[3:])] = [int(column) for column in columns]
    return found


def process_cpu_ns(pid: int) -> int | None:
    """CPU time of all threads of a live process, to the nanosecond.

    Uses the process's own CPU clock, which any user may read, rather than /proc: the
    clock id is the kernel's ABI, ``~pid << 3`` with 2 for "time on the CPU".
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)
    except OSError:
        return None
