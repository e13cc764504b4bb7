"""Exchanges tables as ``core.cluster.startup.tables``, but counts tables that have arrived.

The machines keep the place of each table, which needs gigabytes for thousands of nodes. The
ones here decide by the same code, but keep the number of tables. Their places are ``range``
objects whose length alone has a meaning. Tests compare their times with the machines'.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.cluster.startup.tables import (
    Command,
    Event,
    Exchange,
    Siblings,
    TableReady,
    TablesArrived,
    ThroughRoot,
)
from cosched.core.cluster.startup.tree import Position, Tree

#: Up to so many nodes a simulation has the machines themselves.
MACHINES_UP_TO = 496


class Tables:
    """How a simulation exchanges tables: by the machines themselves."""

    def machine(self, kind: type[Exchange], tree: Tree, place: Position) -> Exchange:
        """Returns the exchange of a node."""
        return kind(tree, place)

    def join(self, parts: Sequence[Sequence[Position]]) -> Sequence[Position]:
        """Returns several sets of tables as one."""
        return tuple(place for part in parts for place in part)


class Counted(Tables):
    """Machines that count."""

    def machine(self, kind: type[Exchange], tree: Tree, place: Position) -> Exchange:
        return _COUNTED[kind](tree, place)

    def join(self, parts: Sequence[Sequence[Position]]) -> Sequence[Position]:
        return range(sum(map(len, parts)))


def tables_for(nodes: int) -> Tables:
    """Returns the way that suits a number of nodes."""
    return Tables() if nodes <= MACHINES_UP_TO else Counted()


class _Counting(Exchange):
    """Counts tables instead of keeping their places."""

    def __init__(self, tree: Tree, place: Position) -> None:
        super().__init__(tree, place)
        self._own = False
        self._count = 0

    def handle(self, event: Event) -> tuple[Command, ...]:
        if isinstance(event, TableReady):
            self._own = True
        return super().handle(event)

    @property
    def _ready(self) -> bool:
        return self._own

    def _check(self, event: TablesArrived) -> None:
        """Checks nothing: the places have no meaning."""

    def _add(self, places: Sequence[Position]) -> None:
        self._count += len(places)

    def _subtree(self) -> Sequence[Position]:
        return range(self._count)


class _CountingSiblings(_Counting, Siblings):
    pass


class _CountingThroughRoot(_Counting, ThroughRoot):
    pass


_COUNTED: dict[type[Exchange], type[Exchange]] = {
    Siblings: _CountingSiblings,
    ThroughRoot: _CountingThroughRoot,
}
