"""Reads how a process spent its time, and which bytes it moved, from /proc.

The kernel counts the time of a process's first thread on a CPU and in the queue for one
(``schedstat``). For the rest it waited. A file can be missing: a kernel without that
account, or a process that has ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cosched.core.units import NS_PER_US
from cosched.linux.proc import ROOT, integer, read_of, read_text


class TaskTimes(NamedTuple):
    """The account of a process since it began."""

    on_cpu_ns: int  #: CPU time of its first thread
    queued_ns: int  #: how long this thread waited for a CPU
    read_bytes: int  #: bytes that were read from disks for it
    written_bytes: int  #: bytes that it gave to the kernel for disks


def task_times(pid: int, root: Path = ROOT) -> TaskTimes | None:
    """Returns the account of a process; None if the kernel has none. Raises OSError for a
    file that is not of a kernel that this program knows."""
    times = thread_times(pid, root)
    moved = dict(
        line.split(": ", 1)
        for line in (read_of(pid, "io", root) or "").splitlines()
        if ": " in line
    )
    if times is None or not {"read_bytes", "write_bytes"} <= moved.keys():
        return None
    moved_bytes = integer(moved["read_bytes"]), integer(moved["write_bytes"])
    return TaskTimes(*times, *moved_bytes)


def thread_times(pid: int, root: Path = ROOT) -> tuple[int, int] | None:
    """Returns how long the first thread of a process had a CPU, and how long it waited for
    one, in ns; None if the kernel has no such account. Raises OSError as ``task_times``."""
    times = (read_of(pid, "schedstat", root) or "").split()
    return None if len(times) < 2 else (integer(times[0]), integer(times[1]))


def stalled_ns(group: Path, resource: str) -> int | None:
    """Returns how long at least one task of a control group waited for a resource: ``io``,
    ``memory`` or ``cpu``. None if the kernel has no such account of groups."""
    text = read_text(group / f"{resource}.pressure")
    for line in (text or "").splitlines():
        kind, _, values = line.partition(" ")
        if kind == "some":
            _, _, total = values.partition("total=")
            return integer(total) * NS_PER_US
    return None
