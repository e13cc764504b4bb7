"""Keeps the rows of a domain: which there are, and which nodes they may use.

An open row takes jobs. A closed one only keeps those that run in it, and is dropped when
they have ended. Withheld nodes are in service, but the rows must not use them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from cosched.core.cluster.queue.domain import (
    Command,
    DomainQueue,
    Event,
    NodesDrained,
    NodesJoined,
    NodesLost,
)
from cosched.core.cluster.queue.messages import Job
from cosched.core.cluster.queue.nodes import Intervals, common, count, union, without


class RowSet:
    """The rows of a domain. all: the open rows, then the closed ones. service: the nodes in
    service. make: returns an empty row with all nodes in service."""

    def __init__(
        self, nodes: Intervals, rows: int, make: Callable[[], DomainQueue]
    ) -> None:
        self.service = nodes
        self._nodes = nodes
        self._withheld: Intervals = ()
        self._wakes: dict[DomainQueue, int | None] = {}
        self._count = rows
        self.all = [make() for _ in range(rows)]

    @property
    def open(self) -> list[DomainQueue]:
        """The rows that take jobs."""
        return self.all[: self._count]

    @property
    def closed(self) -> list[DomainQueue]:
        """The rows that take no job."""
        return self.all[self._count :]

    @property
    def capacity(self) -> int:
        """The number of nodes in service."""
        return count(self.service)

    @property
    def waiting(self) -> list[Job]:
        """The jobs that wait in the rows, row by row."""
        return [job for row in self.all for job in row.scheduler.queue]

    @property
    def idle(self) -> list[DomainQueue]:
        """The open rows with free nodes and without waiting jobs; none of one row."""
        if self._count == 1:
            return []
        rows = ((row, row.scheduler) for row in self.open)
        return [row for row, queue in rows if queue.free and not queue.queue]

    def soonest(self, job: Job, now_ns: int) -> DomainQueue:
        """Returns the open row in which a job probably starts soonest."""

        def start_ns(row: DomainQueue) -> int:
            queue = row.scheduler
            waiting_ns = queue.waiting_ns // max(1, queue.capacity)
            return queue.guess_ns(job.size, now_ns) + waiting_ns

        return min(self.open, key=start_ns)

    # --- rows -----------------------------------------------------------------------------

    def make_again(self, rows: int, make: Callable[[], DomainQueue]) -> None:
        """Replaces all rows by empty ones with all nodes in service, none withheld."""
        self._count = rows
        self._withheld = ()
        self._wakes.clear()
        self.all = [make() for _ in range(rows)]

    def add_closed(self, row: DomainQueue) -> None:
        """Adds a closed row."""
        self.all.append(row)

    def drop_closed(self, used: Collection[DomainQueue]) -> None:
        """Drops the closed rows that are not used."""
        for row in self.closed:
            if row not in used:
                self.all.remove(row)
                self._wakes.pop(row, None)

    # --- events ---------------------------------------------------------------------------

    def handle(self, event: Event) -> Iterator[Command]:
        """Yields what each row answers to the event."""
        return (command for row in self.all for command in row.handle(event))

    def take_nodes(
        self, event: NodesLost | NodesDrained | NodesJoined
    ) -> Iterator[Command]:
        """Changes which nodes are in service; yields what the rows answer."""
        # Withheld nodes are out of service in the rows, which must see the change.
        self.withhold((), event.now_ns)
        if isinstance(event, NodesJoined):
            self.service = union(self.service, event.nodes)
        else:
            self.service = without(self.service, event.nodes)
        return self.handle(event)

    def withhold(self, nodes: Intervals, now_ns: int) -> None:
        """Keeps exactly these nodes from the jobs of the rows."""
        nodes = common(nodes, self.service)
        old, self._withheld = self._withheld, nodes
        back, taken = without(old, nodes), without(nodes, old)
        for row in self.all:
            if back:
                row.handle(NodesJoined(now_ns, back))
            if taken:
                row.handle(NodesDrained(now_ns, taken))

    def admit_all(self, now_ns: int) -> None:
        """Lets the rows use all nodes, until ``drain_out_of_service``."""
        self.withhold((), now_ns)
        for row in self.all:
            row.handle(NodesJoined(now_ns, without(self._nodes, self.service)))

    def drain_out_of_service(self, now_ns: int) -> Iterator[Command]:
        """Takes the nodes that are not in service from rows that have them."""
        return self.handle(NodesDrained(now_ns, without(self._nodes, self.service)))

    # --- alarms ---------------------------------------------------------------------------

    def set_wake(self, row: DomainQueue, at_ns: int | None) -> None:
        """Notes when a row wants its next tick; None: it wants none."""
        self._wakes[row] = at_ns

    @property
    def wake_ns(self) -> int | None:
        """When the first row wants its next tick; None: no row wants one."""
        return min((at for at in self._wakes.values() if at is not None), default=None)
