"""Keeps the parts of this node: their slots, their CPUs, and the jobs that have one.

All tasks of a job on a part use the CPUs of that part alone, also those of worlds that it
spawns. So the node's scheduler sees jobs on two parts with disjoint CPUs, and lets both run
all the time.

Limits: tasks are bound by their affinity, which a program can change.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cosched.core.cluster.startup.jobobject import JobObject
from cosched.core.errors import CoschedError
from cosched.core.node.division import format_cpus
from cosched.linux.cpu_surroundings import read_division

#: A job and its start.
_Start = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NodePart:
    """A part of the node."""

    slots: tuple[int, ...]  #: its slots
    cpus: tuple[int, ...]  #: its CPUs


class NodeParts:
    """The parts of a node; none: it is not divided. why: how it was divided, in words."""

    def __init__(self, parts: tuple[NodePart, ...] = (), why: str = "") -> None:
        self._parts = parts
        self.why = why
        self._worlds: dict[_Start, tuple[NodePart, set[int]]] = {}

    @property
    def least_slots(self) -> int:
        """The slots of the smallest part; 0: the node is not divided."""
        return min((len(part.slots) for part in self._parts), default=0)

    @property
    def text(self) -> str:
        """The CPUs of the parts in one line."""
        sets = " and ".join(format_cpus(part.cpus) for part in self._parts)
        return f"is divided into CPUs {sets}, {self.why}"

    def enter(
        self, start: _Start, world: int, found: JobObject, place: int
    ) -> NodePart | None:
        """Returns the part that one world of a job has here; None: the whole node. Raises
        CoschedError for a part that this node does not have."""
        if not found.parts:
            return None
        if world:
            known = self._worlds.get(start)
            if known is None:
                raise CoschedError(f"job {start[0]}: has no part of this node any more")
            known[1].add(world)
            return known[0]
        if len(found.parts) != len(found.counts):
            raise CoschedError(f"job {start[0]}: its parts do not fit its nodes")
        number = found.parts[place]
        if number >= len(self._parts):
            raise CoschedError(
                f"job {start[0]}: wants part {number} of a node with {len(self._parts)}"
            )
        self._worlds[start] = self._parts[number], {world}
        return self._parts[number]

    def leave(self, start: _Start, world: int) -> None:
        """Forgets one world of a job, and the job with its last one."""
        known = self._worlds.get(start)
        if known is not None:
            known[1].discard(world)
            if not known[1]:
                del self._worlds[start]


def read_parts(parts: int, cpus: Collection[int], slots: int) -> NodeParts:
    """Returns this node, divided as domain.toml says. Raises CoschedError if it cannot be
    divided."""
    if parts == 1:
        return NodeParts()
    division = read_division(cpus, parts)
    found = zip(division.slots(cpus, slots), division.parts, strict=True)
    return NodeParts(tuple(NodePart(*each) for each in found), division.why)
