"""Numbers the nodes of a job as an n-ary tree (section 5, Fig. 4)."""

from __future__ import annotations

from dataclasses import dataclass

from cosched.core.errors import CoschedError

#: A node's place in its job; 0 is the root.
Position = int


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of a job with ``size`` nodes. A node has at most ``arity`` children.

    Places go level by level, so each level of a subtree is a range of places. The tree
    lasts as long as the job, and nodes compute it from these two numbers.
    """

    size: int  #: nodes
    arity: int  #: the most children of a node

    def __post_init__(self) -> None:
        if self.size < 1 or self.arity < 1:
            raise CoschedError(
                f"a tree of {self.size} nodes with {self.arity} children each: both must "
                "be 1 or more"
            )

    def parent(self, place: Position) -> Position | None:
        """Returns the parent; None for the root. Raises CoschedError for no place."""
        if not 0 <= place < self.size:
            raise CoschedError(f"a tree of {self.size} nodes has no node {place}")
        return (place - 1) // self.arity if place else None

    def children(self, place: Position) -> range:
        """Returns the places of the children."""
        first = place * self.arity + 1
        return range(min(first, self.size), min(first + self.arity, self.size))

    def neighbours(self, place: Position) -> tuple[Position, ...]:
        """Returns the parent, if there is one, and the children."""
        parent = self.parent(place)
        return (*(() if parent is None else (parent,)), *self.children(place))

    def levels(self, place: Position) -> tuple[range, ...]:
        """Returns the subtree of a place, itself included, level by level."""
        found = []
        level = range(place, place + 1)
        while level.start < self.size:
            found.append(range(level.start, min(level.stop, self.size)))
            level = range(level.start * self.arity + 1, level.stop * self.arity + 1)
        return tuple(found)

    def below(self, place: Position) -> int:
        """Returns the number of nodes in the subtree of a place, itself included."""
        return sum(len(level) for level in self.levels(place))
