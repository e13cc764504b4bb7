"""Gives each node the network tables of all nodes, over the tree (section 4.1, Fig. 5).

A node's table has what peers need in order to reach its tasks, such as addresses or keys.
The MPI's barrier or fence asks for the exchange.

``Siblings`` is the new design: a node passes each table on to all its neighbours except the
one that sent it. So a parent sends each child the tables of the other children and those
from above, but never the child's own. ``ThroughRoot`` is the old design, for comparison:
all tables go up to the root, which sends the full set down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from msgspec import Struct

from cosched.core.cluster.startup.tree import Position, Tree
from cosched.core.errors import CoschedError


class TableReady(Struct, frozen=True):
    """This node's own table is ready."""


class TablesArrived(Struct, frozen=True):
    """A neighbour sent the tables of these nodes."""

    sender: Position  #: the neighbour
    places: Sequence[Position]  #: whose tables they are
    last: bool  #: it will send no more


class SendTables(Struct, frozen=True):
    """Send a neighbour the tables of these nodes."""

    to: Position  #: the neighbour
    places: Sequence[Position]  #: whose tables they are
    last: bool  #: no more will follow


class PublishTables(Struct, frozen=True):
    """The tables of all nodes are here: the tasks may read them."""


Event = TableReady | TablesArrived
Command = SendTables | PublishTables


class Exchange(ABC):
    """One exchange at one node."""

    #: Whether tables may come again: the full set has those of this subtree, too.
    _repeats = False

    def __init__(self, tree: Tree, place: Position) -> None:
        self._tree = tree
        self._place = place
        self._here: set[Position] = set()
        self._open = set(tree.neighbours(place))  #: neighbours that will send more
        self._missing: dict[Position, int] = {}  #: tables that neighbours have not sent
        self._levels: dict[Position, tuple[range, ...]] = {}  #: of subtrees

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Handles an event; returns the commands. Raises CoschedError for a sender that is
        no neighbour or has sent its last table, and for a table that came twice."""
        if isinstance(event, TableReady):
            self._check(TablesArrived(self._place, (self._place,), last=False))
            self._add((self._place,))
            return self._pass_on((self._place,), None)
        if event.sender not in self._open:
            raise CoschedError(
                f"node {self._place} of the job: node {event.sender} sent tables that "
                "were not expected"
            )
        self._check(event)
        self._add(event.places)
        if event.last:
            self._open.discard(event.sender)
        return self._pass_on(event.places, event.sender)

    def _check(self, event: TablesArrived) -> None:
        """Raises CoschedError for tables that cannot come from this node or neighbour."""
        self._check_new(event.places)
        if event.sender != self._place:
            self._check_side(event)

    def _check_new(self, places: Sequence[Position]) -> None:
        """Raises CoschedError if the job lacks one of the nodes, or its table is here."""
        here = set() if self._repeats else self._here
        distinct = set(places)
        if (
            len(distinct) < len(places)
            or not here.isdisjoint(distinct)
            or not all(map(range(self._tree.size).__contains__, distinct))
        ):
            raise CoschedError(
                f"node {self._place} of the job: a table came twice, or is of no node"
            )

    def _check_side(self, event: TablesArrived) -> None:
        """Raises CoschedError if a table is not from the sender's part of the tree, or if
        the sender has no more although one of its part is missing."""
        sender, places = event.sender, event.places
        repeats = self._repeats and sender < self._place
        new = behind = self._count_behind(sender, places)
        if not repeats and behind < len(places):
            raise CoschedError(
                f"node {self._place} of the job: node {event.sender} sent a table of "
                "another part of the tree"
            )
        if self._repeats:
            new = self._count_behind(sender, set(places) - self._here)
        missing = self._missing.get(event.sender)
        if missing is None:
            missing = self._size_of(event.sender)
        if event.last and new < missing:
            raise CoschedError(
                f"node {self._place} of the job: node {event.sender} left out a table"
            )
        self._missing[event.sender] = missing - new

    def _size_of(self, neighbour: Position) -> int:
        """Returns the number of nodes behind a neighbour."""
        if neighbour > self._place:
            return self._tree.below(neighbour)
        return self._tree.size - self._tree.below(self._place)

    def _count_behind(self, neighbour: Position, places: Collection[Position]) -> int:
        """Returns how many places are behind a neighbour, as this node sees the tree."""
        is_child = neighbour > self._place
        top = neighbour if is_child else self._place
        levels = self._levels.get(top)
        if levels is None:
            levels = self._levels[top] = self._tree.levels(top)
        below = sum(sum(map(level.__contains__, places)) for level in levels)
        return below if is_child else len(places) - below

    def _add(self, places: Sequence[Position]) -> None:
        self._here.update(places)

    @property
    def _ready(self) -> bool:
        """Whether this node's own table is among those that are here."""
        return self._place in self._here

    @abstractmethod
    def _pass_on(
        self, places: Sequence[Position], sender: Position | None
    ) -> tuple[Command, ...]:
        """Returns the commands for new tables. sender: None for the own table."""


class Siblings(Exchange):
    """Passes tables on as they come."""

    def __init__(self, tree: Tree, place: Position) -> None:
        super().__init__(tree, place)
        self._unfinished = list(tree.neighbours(place))  #: to whom the last is not sent

    def _pass_on(
        self, places: Sequence[Position], sender: Position | None
    ) -> tuple[Command, ...]:
        commands: list[Command] = []
        for neighbour in tuple(self._unfinished):
            last = self._ready and self._open <= {neighbour}
            new = places if neighbour != sender else ()
            if last:
                self._unfinished.remove(neighbour)
            if new or last:
                commands.append(SendTables(neighbour, new, last))
        if self._ready and not self._open:
            commands.append(PublishTables())
        return tuple(commands)


class ThroughRoot(Exchange):
    """Sends tables up when the whole subtree is here, and the full set down."""

    _repeats = True

    def _pass_on(
        self, places: Sequence[Position], sender: Position | None
    ) -> tuple[Command, ...]:
        tree, parent = self._tree, self._tree.parent(self._place)
        if not self._ready or self._open - {parent}:
            return ()
        children = tree.children(self._place)
        if parent is not None and sender != parent:
            return (SendTables(parent, self._subtree(), last=True),)
        if parent in self._open:
            return ()  # the full set comes in several messages
        everything = range(tree.size)
        down = (SendTables(child, everything, last=True) for child in children)
        return (*down, PublishTables())

    def _subtree(self) -> Sequence[Position]:
        """Returns the tables that are here."""
        return tuple(sorted(self._here))
