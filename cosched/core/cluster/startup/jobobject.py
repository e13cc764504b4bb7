"""Defines the job object, which a node must have to start its tasks (section 5).

``JobObject`` is that of the new design. It is the same for all nodes of the job. Its size
does not depend on the tasks of a node, nor on the number of nodes if they are neighbours.
``CentralObject`` is that of the old design, for comparison: it also has the units of each
task and the network table of all tasks.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TypeVar

import msgspec

from cosched.core.cluster.queue.nodes import Intervals, count
from cosched.core.cluster.startup.assignment import Assignment
from cosched.core.cluster.startup.matching import Request
from cosched.core.cluster.startup.tree import Place, Tree
from cosched.core.errors import CoschedError

#: The resource whose units the network table has: windows for direct memory access.
WINDOWS = "windows"
#: An entry of the network table: rank, node, adapter, window, address, key.
ENTRY = Struct("!IIBIIQ")
#: The number of a unit, in four bytes.
_UNITS = "I"


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as its user submitted it."""

    number: int
    uid: int
    gid: int
    groups: tuple[int, ...]
    argv: tuple[str, ...]
    environ: dict[str, str]
    cwd: str
    request: Request


class JobObject(msgspec.Struct, frozen=True, array_like=True):
    """One start of a job.

    start: how often the job was started. nodes: as numbers; their order gives the places.
    tasks: their number on each node. per_task: the resources that each task needs. arity:
    the children of a node in the tree.
    """

    number: int
    start: int
    uid: int
    gid: int
    groups: tuple[int, ...]
    argv: tuple[str, ...]
    environ: dict[str, str]
    cwd: str
    nodes: Intervals
    tasks: int
    per_task: tuple[tuple[str, int], ...]
    arity: int

    @property
    def tree(self) -> Tree:
        """The tree of the job's nodes."""
        return Tree(count(self.nodes), self.arity)

    def node_at(self, place: Place) -> int:
        """Returns the number of the node at a place. Raises CoschedError without one."""
        left = place
        for first, last in self.nodes:
            if 0 <= left <= last - first:
                return first + left
            left -= last - first + 1
        raise CoschedError(f"job {self.number}: has no node {place}")

    def place_of(self, node: int) -> Place:
        """Returns the place of a node. Raises CoschedError if the job does not have it."""
        before = 0
        for first, last in self.nodes:
            if first <= node <= last:
                return before + node - first
            before += last - first + 1
        raise CoschedError(f"job {self.number}: does not have node {node}")


class CentralObject(msgspec.Struct, frozen=True, array_like=True):
    """The job object of the old design.

    units: by place, the packed numbers of the units of its tasks; in a part, the places of
    a subtree. table: the network table of all tasks, which each node must have.
    """

    job: JobObject
    units: dict[Place, bytes]
    table: bytes

    def part(self, child: Place) -> CentralObject:
        """Returns the part for a child: it has the units of the child's subtree."""
        places = (place for level in self.job.tree.levels(child) for place in level)
        return CentralObject(
            self.job, {place: self.units[place] for place in places}, self.table
        )

    def assignment(self, place: Place) -> Assignment:
        """Returns the units of each task of a node."""
        job = self.job
        flat = unpack_units(self.units[place])
        tasks: list[dict[str, tuple[int, ...]]] = [{} for _ in range(job.tasks)]
        at = 0
        for name, number in job.per_task:
            for task in tasks if number else ():
                task[name] = tuple(flat[at : at + number])
                at += number
        return tuple(tasks)


def job_object(job: Submission, nodes: Intervals, arity: int, start: int = 1) -> JobObject:
    """Returns the object of a job that got nodes."""
    return JobObject(
        job.number,
        start,
        job.uid,
        job.gid,
        job.groups,
        job.argv,
        job.environ,
        job.cwd,
        nodes,
        job.request.tasks,
        job.request.per_task,
        arity,
    )


def pack_units(units: Sequence[int]) -> bytes:
    """Returns the numbers of units as bytes."""
    return array(_UNITS, units).tobytes()


def unpack_units(data: bytes) -> Sequence[int]:
    """Returns the numbers of units."""
    return array(_UNITS, data)


def node_table(job: JobObject, place: Place, windows: Sequence[int]) -> bytes:
    """Returns a node's part of the network table: an entry for each of its tasks.

    windows: the window of each task.
    """
    node = job.node_at(place)
    first = place * job.tasks
    key = job.number << 32
    return b"".join(
        [
            ENTRY.pack(rank, node, 0, window, node, key | rank)
            for rank, window in enumerate(windows, first)
        ]
    )


ObjectT = TypeVar("ObjectT", JobObject, CentralObject)


def encode_object(job: JobObject | CentralObject) -> bytes:
    """Returns the object as bytes."""
    return msgspec.msgpack.encode(job)


def decode_object(data: bytes, kind: type[ObjectT]) -> ObjectT:
    """Returns the object. Raises CoschedError for bytes that are none."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise CoschedError(f"not a job object: {error}") from None
