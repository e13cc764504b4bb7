"""Defines what a steward expects of a PMI service."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from cosched.core.cluster.startup.questions import Question, RootAnswer
from cosched.core.decoding import is_whole, parse_integer
from cosched.core.errors import CoschedError

#: The greatest number of a world.
MOST_WORLDS = 1 << 20


@dataclass(frozen=True, slots=True)
class NodeTasks:
    """The tasks of one node of a job: ranks ``first`` to ``first + count - 1``."""

    host: str  #: the node's name
    first: int  #: the first rank there
    count: int  #: how many ranks are there


def nodes_of(hosts: Sequence[str], counts: Sequence[int]) -> tuple[NodeTasks, ...]:
    """Returns the nodes of a world. counts: the tasks on each."""
    nodes, first = [], 0
    for host, count in zip(hosts, counts, strict=True):
        nodes.append(NodeTasks(host, first, count))
        first += count
    return tuple(nodes)


@dataclass(frozen=True, slots=True)
class JobLayout:
    """The nodes of a job, by place in its tree."""

    name: str  #: unique for this start of the job (letters, digits, '.', '-')
    nodes: tuple[NodeTasks, ...]  #: by place
    place: int  #: of this node
    #: The ranks that each program has; empty for one program.
    programs: tuple[int, ...] = ()
    #: Values that the parents of a spawned world put for it; None if the job was submitted.
    given: Mapping[str, str] | None = None
    world: int = 0  #: 0, or the number of the spawned world

    @property
    def space(self) -> str:
        """The name of this world, unique on the machine."""
        return self.space_of(self.world)

    def space_of(self, world: int) -> str:
        """Returns the name of a world of this job. Open MPI makes its number of the world
        from the text before the last '@' and the number behind it."""
        return f"{self.name}@{world}"

    def world_of(self, space: str) -> int:
        """Returns the number of a world. Raises CoschedError for one of another job."""
        name, _, world = space.rpartition("@")
        if name != self.name or not is_whole(world, most=MOST_WORLDS):
            raise CoschedError(f"{space}: is not a world of this job")
        return parse_integer(world, space, 0, MOST_WORLDS)

    def program_of(self, rank: int) -> int:
        """Returns the number of the rank's program: its MPI_APPNUM."""
        before = list(accumulate(self.programs))
        return bisect_right(before, rank) if before else 0

    def ranks_of(self, program: int) -> range:
        """Returns the ranks of a program."""
        if not self.programs:
            return range(self.size)
        first = sum(self.programs[:program])
        return range(first, first + self.programs[program])

    @property
    def size(self) -> int:
        """The number of ranks."""
        return sum(node.count for node in self.nodes)

    @property
    def here(self) -> NodeTasks:
        """This node."""
        return self.nodes[self.place]

    @property
    def ranks(self) -> range:
        """The ranks of this node."""
        return range(self.here.first, self.here.first + self.here.count)


class Events(Protocol):
    """Receives what a service reports, in the steward's own thread."""

    def table_ready(self, table: bytes) -> None:
        """This node's table of the next exchange; exchanges are numbered by order."""

    def aborted(self, rank: int, status: int, message: str) -> None:
        """The rank asks that the whole job ends."""

    def finalized(self, rank: int) -> None:
        """The rank left MPI properly."""

    def asked(self, number: int, question: Question) -> None:
        """A task asks the job's root; the answer has the same number."""

    def unsupported(self, rank: int, what: str) -> None:
        """The rank asked for something that is not served; what: one line."""

    def refused(self, rank: int, what: str) -> None:
        """The rank did not get what it asked for; what: one line."""


class Service:
    """Serves the tasks of one job on one node. This one serves programs without MPI:
    nothing."""

    def environment(self, rank: int) -> dict[str, str]:
        """Returns the variables by which the task finds the service."""
        return {}

    def inherited(self, rank: int) -> tuple[int, ...]:
        """Returns the descriptors that the task keeps."""
        return ()

    def started(self, rank: int, pid: int) -> None:
        """Called when the task's process exists."""

    def watched(self) -> Mapping[int, Callable[[], object]]:
        """Returns the descriptors to watch, and what to call when one is readable. If that
        returns False, the descriptor is closed."""
        return {}

    def deliver(self, tables: Sequence[bytes]) -> None:
        """Delivers the tables of all nodes, by place, for the oldest open exchange."""

    def answer(self, number: int, answer: RootAnswer) -> None:
        """Delivers the answer of the job's root to a question."""

    def ended(self, rank: int) -> None:
        """Called when the task's process is gone."""

    def close(self) -> None:
        """Ends the service."""
