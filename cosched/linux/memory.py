"""Reads from /proc the memory of the machine and of processes, and the pressure.

The memory of a job is the sum of the anonymous pages of its processes, and the greatest
shared memory of one process, because the ranks of a node map the same segments. Pages of
files do not count: the kernel can drop them.

It is not memory.current of the job's control group. A process that is moved into a group
leaves its earlier charges in the old group (version 2), and ranks are moved at their start
or after MPI_Init. Neither figure contains huge pages of the hugetlb pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from cosched.core.decoding import parse_number
from cosched.core.named_tuples import NamedTuple
from cosched.linux import proc

# Searched one by one, not all fifty lines: a daemon does this for each task.
_TOTAL = r"(?m)^MemTotal:\s+(\d+) kB$"
_AVAILABLE = r"(?m)^MemAvailable:\s+(\d+) kB$"
_SWAP = r"(?m)^SwapTotal:\s+(\d+) kB$"
_ANONYMOUS = r"(?m)^RssAnon:\s+(\d+) kB$"
_SHARED = r"(?m)^RssShmem:\s+(\d+) kB$"
_SOME = r"(?m)^some avg10=(\d+(?:\.\d+)?) "


class MachineMemory(NamedTuple):
    """The memory of the machine."""

    total_bytes: int  #: all of it; 0: unknown
    available_bytes: int  #: available without paging; 0: unknown
    swap_bytes: int  #: the space to page to; 0: none, or unknown


def machine_memory(root: Path = proc.ROOT) -> MachineMemory:
    """Reads /proc/meminfo; returns zeros if it cannot be read."""
    text = proc.read_text(root / "proc/meminfo") or ""
    return MachineMemory(*(_bytes(line, text) for line in (_TOTAL, _AVAILABLE, _SWAP)))


def pressure_percent(root: Path = proc.ROOT) -> float | None:
    """Returns the percentage of the last ten seconds in which a task waited for memory.

    The kernel's PSI; None if the kernel has none."""
    match = re.search(_SOME, proc.read_text(root / "proc/pressure/memory") or "")
    return parse_number(match[1], "pressure", 0, 100) if match else None


def held_bytes(pids: Iterable[int], root: Path = proc.ROOT) -> int:
    """Returns the bytes that the processes hold together; ended processes hold 0."""
    anonymous = shared = 0
    for pid in pids:
        text = proc.read_of(pid, "status", root) or ""
        anonymous += _bytes(_ANONYMOUS, text)
        shared = max(shared, _bytes(_SHARED, text))
    return anonymous + shared


def _bytes(line: str, text: str) -> int:
    """Returns a line's KiB in bytes; 0 if the line is missing."""
    match = re.search(line, text)
    return proc.integer(match[1]) * 1024 if match else 0
