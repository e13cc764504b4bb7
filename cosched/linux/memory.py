"""What /proc says about memory: the machine's, its pressure, and that of processes.

A job's memory is what its processes hold and nobody else could use: their anonymous pages,
added up, and their shared memory, of which the process with the most counts, since the
ranks of a node map the same segments. Pages of files are left out: the kernel takes them
back at will.

Not memory.current of the job's control group: a process that is moved into a group leaves
what it had charged to the old one (version 2), and the ranks are moved in after MPI_Init.
Huge pages from the hugetlb pool are in neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cosched.linux import proc

_FIELD = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)
_SOME = re.compile(r"^some avg10=(\d+(?:\.\d+)?) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """Bytes of the whole machine, and what new processes could have without paging."""

    total_bytes: int
    available_bytes: int


def machine_memory(root: Path = proc.ROOT) -> MachineMemory:
    """From /proc/meminfo; zeros where that cannot be read."""
    fields = _fields(root / "proc/meminfo")
    return MachineMemory(fields.get("MemTotal", 0), fields.get("MemAvailable", 0))


def pressure_percent(root: Path = proc.ROOT) -> float | None:
    """In how much of the last ten seconds some task stood still for want of memory (PSI);
    None where the kernel does not tell."""
    match = _SOME.search(proc.read_text(root / "proc/pressure/memory") or "")
    return float(match[1]) if match else None


def held_bytes(pids: Iterable[int], root: Path = proc.ROOT) -> int:
    """What the processes hold together; those that are gone hold nothing."""
    anonymous = shared = 0
    for pid in pids:
        fields = _fields(root / "proc" / str(pid) / "status")
        anonymous += fields.get("RssAnon", 0)
        shared = max(shared, fields.get("RssShmem", 0))
    return anonymous + shared


def _fields(path: Path) -> dict[str, int]:
    text = proc.read_text(path) or ""
    return {name: int(kib) * 1024 for name, kib in _FIELD.findall(text)}
