"""Defines what a steward expects of a PMI service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NodeTasks:
    """The tasks of one node of a job: ranks ``first`` to ``first + count - 1``."""

    host: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class JobLayout:
    """The nodes of a job, by place in its tree; ``place``: this node's.

    name: unique for this start of the job (letters, digits, '.', '-').
    """

    name: str
    nodes: tuple[NodeTasks, ...]
    place: int

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

    def unsupported(self, rank: int, what: str) -> None:
        """The rank asked for something that is not served; what: one line."""


class Service(ABC):
    """Serves the tasks of one job on one node."""

    @abstractmethod
    def environment(self, rank: int) -> dict[str, str]:
        """Returns the variables by which the task finds the service."""

    @abstractmethod
    def inherited(self, rank: int) -> tuple[int, ...]:
        """Returns the descriptors that the task keeps."""

    @abstractmethod
    def started(self, rank: int, pid: int) -> None:
        """Notes that the task's process exists."""

    @abstractmethod
    def watched(self) -> Mapping[int, Callable[[], object]]:
        """Returns the descriptors to watch, and what to call when one is readable. If that
        returns False, the descriptor is closed."""

    @abstractmethod
    def deliver(self, tables: Sequence[bytes]) -> None:
        """Takes the tables of all nodes, by place, for the oldest open exchange."""

    @abstractmethod
    def ended(self, rank: int) -> None:
        """Notes that the task's process is gone."""

    @abstractmethod
    def close(self) -> None:
        """Ends the service."""


class NoService(Service):
    """Serves programs without MPI: nothing."""

    def environment(self, rank: int) -> dict[str, str]:
        return {}

    def inherited(self, rank: int) -> tuple[int, ...]:
        return ()

    def started(self, rank: int, pid: int) -> None:
        return

    def watched(self) -> Mapping[int, Callable[[], object]]:
        return {}

    def deliver(self, tables: Sequence[bytes]) -> None:
        return

    def ended(self, rank: int) -> None:
        return

    def close(self) -> None:
        return
