"""What /proc says about memory: the machine's, its pressure, and that of processes.

A job's memory is what its processes hold and nobody else could use: their anonymous pages,
added up, and their shared memory, of which the process with the most counts, since the
ranks of a node map the same segments. Pages of files are left out: the kernel takes them
back at will.

Not memory.current of the job's control group: a process that is moved into a group leaves
what it had charged to the old one (version 2), and ranks are moved in when they begin, or
even after MPI_Init. Huge pages from the hugetlb pool are in neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cosched.linux import proc

# Read where they are wanted, not all fifty lines: a daemon does so for each of its tasks.
_TOTAL = re.compile(r"^MemTotal:\s+(\d+) kB$", re.MULTILINE)
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)
_ANONYMOUS = re.compile(r"^RssAnon:\s+(\d+) kB$", re.MULTILINE)
_SHARED = re.compile(r"^RssShmem:\s+(\d+) kB$", re.MULTILINE)
_SOME = re.compile(r"^some avg10=(\d+(?:\.\d+)?) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """Bytes of the whole machine, and what new processes could have without paging."""

    total_bytes: int
    available_bytes: int


def machine_memory(root: Path = proc.ROOT) -> MachineMemory:
    """From /proc/meminfo; zeros where that cannot be read."""
    text = proc.read_text(root / "proc/meminfo") or ""
    return MachineMemory(_bytes(_TOTAL, text), _bytes(_AVAILABLE, text))


def pressure_percent(root: Path = proc.ROOT) -> float | None:
    """In how much of the last ten seconds some task stood still for want of memory (PSI);
    None where the kernel does not tell."""
    match = _SOME.search(proc.read_text(root / "proc/pressure/memory") or "")
    return float(match[1]) if match else None


def held_bytes(pids: Iterable[int], root: Path = proc.ROOT) -> int:
    """What the processes hold together; those that are gone hold nothing."""
    anonymous = shared = 0
    for pid in pids:
        text = proc.read_text(root / f"proc/{pid}/status") or ""
        anonymous += _bytes(_ANONYMOUS, text)
        shared = max(shared, _bytes(_SHARED, text))
    return anonymous + shared


def _bytes(line: re.Pattern[str], text: str) -> int:
    """A line's number of KiB, in bytes; 0 without the line."""
    match = line.search(text)
    return int(match[1]) * 1024 if match else 0
