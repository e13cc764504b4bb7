"""Divides the CPUs of a node into parts that share as little hardware as possible.

Jobs on different parts then have caches of their own where the node allows it (Weinberg and
Snavely, ICS 2006, section 2.4). Parts are equal where they follow the hardware, since one
size of a part holds for the whole node. Threads of a core stay together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise

from cosched.core.errors import CoschedError

#: CPUs that share something.
Together = frozenset[int]


@dataclass(frozen=True, slots=True)
class CpuSurroundings:
    """The hardware around one CPU. An empty set: not known."""

    l3: Together = frozenset()  #: the CPUs with the same cache of level 3
    package: Together = frozenset()  #: the CPUs of the same socket
    core: Together = frozenset()  #: the threads of the same core


@dataclass(frozen=True, slots=True)
class Division:
    """The parts of a node."""

    parts: tuple[tuple[int, ...], ...]  #: the CPUs of each part, ascending
    why: str  #: in words: by which hardware, or why by none

    def slots(self, cpus: Collection[int], slots: int) -> tuple[tuple[int, ...], ...]:
        """Returns the slots of each part, where slot s is on CPU s modulo the CPUs. Raises
        CoschedError for a part without a slot."""
        ordered = sorted(cpus)
        on = [ordered[slot % len(ordered)] for slot in range(slots)]
        found = tuple(
            tuple(slot for slot, cpu in enumerate(on) if cpu in part) for part in self.parts
        )
        if not all(found):
            raise CoschedError(
                f"too few slots ({slots}) for {len(self.parts)} parts; raise slots in "
                "domain.toml, or write parts = 1 into [symbiosis]"
            )
        return found


def format_cpus(cpus: Collection[int]) -> str:
    """Returns CPUs in the kernel's notation, such as ``0-3,8``."""
    ordered = sorted(cpus)
    begins = [cpu for cpu in ordered if cpu - 1 not in cpus]
    ends = [cpu for cpu in ordered if cpu + 1 not in cpus]
    pairs = zip(begins, ends, strict=True)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs)


def divide(
    cpus: Collection[int], around: Mapping[int, CpuSurroundings], parts: int = 2
) -> Division:
    """Returns the division of a node with these CPUs. around: the hardware of each CPU, as
    far as it is known. Raises CoschedError if a part would have no CPU."""
    if len(cpus) < parts:
        raise CoschedError(
            f"too few CPUs ({len(cpus)}) for {parts} parts; write parts = 1 into "
            "[symbiosis] of domain.toml"
        )
    missed = []
    for name in ("l3", "package"):
        title = {"l3": "L3 cache", "package": "socket"}[name]
        groups = _groups(cpus, {cpu: getattr(one, name) for cpu, one in around.items()})
        if groups is None:
            missed.append(f"no {title} is known")
        elif len(groups) < parts:
            missed.append(f"one {title} only")
        else:
            found = _equal(groups, parts)
            if found is not None:
                return Division(found, f"by {title}")
            missed.append(f"{title}s give no equal parts")
    return Division(_by_count(cpus, around, parts), f"by count: {', '.join(missed)}")


def _groups(
    cpus: Collection[int], together: Mapping[int, Together]
) -> list[list[int]] | None:
    """Returns the CPUs in sets that share something, each in the order of its first CPU;
    None if that is not known of each CPU."""
    found: dict[Together, list[int]] = {}
    for cpu in sorted(cpus):
        own = together.get(cpu, frozenset())
        if cpu not in own:
            return None
        found.setdefault(own, []).append(cpu)
    return list(found.values())


def _equal(groups: list[list[int]], parts: int) -> tuple[tuple[int, ...], ...] | None:
    """Returns parts of equal size made of neighbouring groups; None if there are none."""
    size, rest = divmod(sum(map(len, groups)), parts)
    made: list[list[int]] = [[]]
    for group in groups:
        if len(made[-1]) == size:
            made.append([])
        made[-1] += group
    if rest or any(len(part) != size for part in made):
        return None
    return tuple(tuple(sorted(part)) for part in made)


def _by_count(
    cpus: Collection[int], around: Mapping[int, CpuSurroundings], parts: int
) -> tuple[tuple[int, ...], ...]:
    """Returns parts of nearly equal size, of whole cores where there are enough."""
    cores = _groups(cpus, {cpu: one.core for cpu, one in around.items()})
    if cores is None or len(cores) < parts:
        cores = [[cpu] for cpu in sorted(cpus)]
    bounds = [len(cores) * part // parts for part in range(parts + 1)]
    return tuple(
        tuple(sorted(cpu for core in cores[first:last] for cpu in core))
        for first, last in pairwise(bounds)
    )
