"""Defines what the central manager makes of a submission: a placement (section 4.1).

In the new design the job object of a placement travels (``jobobject``). ``CentralObject``
is that of the old design, for comparison: it also has the units of each task and the
network table of all tasks.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct

import msgspec

from cosched.core.cluster.queue.nodes import Intervals, count
from cosched.core.cluster.queue.places.matching import Request
from cosched.core.cluster.startup.assignment import Assignment
from cosched.core.cluster.startup.jobobject import JobObject
from cosched.core.cluster.startup.seal import Tied
from cosched.core.cluster.startup.tree import Position, Tree
from cosched.core.errors import CoschedError

#: The resource whose units the network table has: windows for direct memory access.
WINDOWS = "windows"
#: An entry of the network table: rank, node, adapter, window, address, key.
ENTRY = Struct("!IIBIIQ")
#: The number of a unit, in four bytes.
_UNITS = "I"
_UMASK = 0o022
_GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as its user submitted it."""

    number: int  #: the job's number
    uid: int  #: its user
    gid: int  #: the user's group
    argv: tuple[str, ...]  #: the program and its arguments
    environ: Mapping[str, str]  #: variables of all tasks
    cwd: str  #: the working directory
    request: Request  #: the nodes that it needs


@dataclass(frozen=True, slots=True)
class Placement:
    """A job with its nodes."""

    job: Submission  #: as it was submitted
    nodes: Intervals  #: as numbers; their order gives the places
    arity: int  #: the children of a node in the tree
    start: int = 1  #: how often the job was started

    @property
    def tree(self) -> Tree:
        """The tree of the job's nodes."""
        return Tree(count(self.nodes), self.arity)

    @property
    def tied(self) -> Tied:
        """The start to which the job object is tied."""
        return Tied(self.job.number, self.start, self.nodes, self.arity, "siblings")

    def object(self) -> JobObject:
        """Returns the job object."""
        job = self.job
        return JobObject(
            name=f"{job.number}.{self.start}",
            uid=job.uid,
            gid=job.gid,
            argv=job.argv,
            environ=dict(job.environ),
            cwd=job.cwd,
            umask=_UMASK,
            counts=(job.request.tasks,) * count(self.nodes),
            pmi="pmi1",
            pmix_library="",
            bind=False,
            input="/dev/null",
            output=f"cosched-{job.number}.out",
            error="",
            label=False,
            grace_s=_GRACE_S,
        )

    def node_at(self, place: Position) -> int:
        """Returns the number of the node at a place. Raises CoschedError without one."""
        left = place
        for first, last in self.nodes:
            if 0 <= left <= last - first:
                return first + left
            left -= last - first + 1
        raise CoschedError(f"job {self.job.number}: has no node {place}")

    def place_of(self, node: int) -> Position:
        """Returns the place of a node. Raises CoschedError if the job does not have it."""
        before = 0
        for first, last in self.nodes:
            if first <= node <= last:
                return before + node - first
            before += last - first + 1
        raise CoschedError(f"job {self.job.number}: does not have node {node}")


class CentralObject(msgspec.Struct, frozen=True, array_like=True):
    """The job object of the old design."""

    job: JobObject  #: the object of the new design
    arity: int  #: the children of a node in the tree
    per_task: tuple[tuple[str, int], ...]  #: the resources that each task needs
    #: By place, the packed numbers of the units of its tasks; in a part, the places of a
    #: subtree.
    units: dict[Position, bytes]
    table: bytes  #: the network table of all tasks, which each node must have

    def part(self, child: Position) -> CentralObject:
        """Returns the part for a child: it has the units of the child's subtree."""
        tree = Tree(len(self.job.counts), self.arity)
        places = (place for level in tree.levels(child) for place in level)
        units = {place: self.units[place] for place in places}
        return msgspec.structs.replace(self, units=units)

    def assignment(self, place: Position) -> Assignment:
        """Returns the units of each task of a node."""
        flat = unpack_units(self.units[place])
        tasks: list[dict[str, tuple[int, ...]]] = [
            {} for _ in range(self.job.counts[place])
        ]
        at = 0
        for name, number in self.per_task:
            for task in tasks if number else ():
                task[name] = tuple(flat[at : at + number])
                at += number
        return tuple(tasks)


def pack_units(units: Sequence[int]) -> bytes:
    """Returns the numbers of units as bytes."""
    return array(_UNITS, units).tobytes()


def unpack_units(data: bytes) -> Sequence[int]:
    """Returns the numbers of units."""
    return array(_UNITS, data)


def node_table(placed: Placement, place: Position, windows: Sequence[int]) -> bytes:
    """Returns a node's part of the network table: an entry for each of its tasks.

    windows: the window of each task.
    """
    node = placed.node_at(place)
    first = place * placed.job.request.tasks
    key = placed.job.number << 32
    return b"".join(
        [
            ENTRY.pack(rank, node, 0, window, node, key | rank)
            for rank, window in enumerate(windows, first)
        ]
    )


_encoder = msgspec.msgpack.Encoder()


def encode_central(made: CentralObject) -> bytes:
    """Returns the object of the old design as bytes."""
    return _encoder.encode(made)
