"""Reads from /sys which CPUs share a cache of level 3, a socket or a core."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

from cosched.core.node.division import CpuSurroundings, Division, Together, divide
from cosched.linux.proc import ROOT, parse_cpu_list, read_text

_L3 = "3"
_UNKNOWN: Together = frozenset()


def read_cpu_surroundings(
    cpus: Collection[int], root: Path = ROOT
) -> dict[int, CpuSurroundings]:
    """Returns the hardware of each of these CPUs. What /sys does not have, or has in an
    unknown form, is an empty set."""
    of_cpu = root / "sys/devices/system/cpu"
    packages = _packages(cpus, of_cpu)
    return {
        cpu: CpuSurroundings(
            _l3(of_cpu / f"cpu{cpu}/cache"),
            packages.get(cpu, _UNKNOWN),
            _list(of_cpu / f"cpu{cpu}/topology/thread_siblings_list"),
        )
        for cpu in cpus
    }


def read_division(cpus: Collection[int], parts: int = 2, root: Path = ROOT) -> Division:
    """Returns the division of this node. Raises CoschedError if it cannot be divided."""
    return divide(cpus, read_cpu_surroundings(cpus, root), parts)


def usable_siblings() -> list[frozenset[int]]:
    """Returns the CPUs that this process may use, as one set for each core."""
    usable = os.sched_getaffinity(0)
    around = read_cpu_surroundings(usable)
    return sorted({(around[cpu].core | {cpu}) & usable for cpu in usable}, key=min)


def _l3(caches: Path) -> Together:
    for index in sorted(caches.glob("index[0-9]*")):
        if (read_text(index / "level") or "").strip() == _L3:
            return _list(index / "shared_cpu_list")
    return _UNKNOWN


def _packages(cpus: Collection[int], of_cpu: Path) -> dict[int, Together]:
    """Returns the CPUs of each CPU's socket, of those given. The kernel writes -1 where it
    does not know the socket."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for cpu in cpus:
        text = read_text(of_cpu / f"cpu{cpu}/topology/physical_package_id")
        number = (text or "").strip()
        if number.isdecimal():
            found[number].add(cpu)
    return {cpu: frozenset(own) for own in found.values() for cpu in own}


def _list(path: Path) -> Together:
    try:
        return parse_cpu_list(read_text(path) or "")
    except OSError:  # not text of a kernel that this program knows
        return _UNKNOWN
