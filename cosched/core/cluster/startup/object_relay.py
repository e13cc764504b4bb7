"""Passes the job object down the tree (section 5).

``Pipeline`` is the new design: a node forwards each chunk as soon as it has it, and all
nodes receive the whole object. ``StoreAndForward`` is the old design, for comparison: a
node waits for the whole object and sends each child only the part of the child's subtree.
"""

from __future__ import annotations

from msgspec import Struct

from cosched.core.cluster.startup.tree import Position
from cosched.core.errors import CoschedError


class ChunkArrived(Struct, frozen=True):
    """The parent sent one of the ``count`` chunks of the job object."""

    number: int  #: the chunk's number, from 0
    count: int  #: the number of all chunks


class SendChunk(Struct, frozen=True):
    """Send this chunk, which this node has, to a child."""

    child: Position  #: the receiver
    number: int  #: the chunk's number, from 0


class SendPart(Struct, frozen=True):
    """Send a child the part of the object that concerns the child's subtree."""

    child: Position  #: the receiver


class ReadObject(Struct, frozen=True):
    """All chunks are here: read the job object."""


Command = SendChunk | SendPart | ReadObject


class Arrival:
    """The chunks of one object that this node has. They may arrive twice, in any order."""

    def __init__(self) -> None:
        self._count: int | None = None
        self._numbers: set[int] = set()

    @property
    def complete(self) -> bool:
        return self._count is not None and len(self._numbers) == self._count

    def add(self, chunk: ChunkArrived) -> bool:
        """Adds a chunk; returns False if it is here already. Raises CoschedError for a
        chunk that contradicts the others."""
        if self._count is None and chunk.count >= 1:
            self._count = chunk.count
        if chunk.count != self._count or not 0 <= chunk.number < chunk.count:
            raise CoschedError(
                f"job object: chunk {chunk.number} of {chunk.count} does not belong to an "
                f"object of {self._count} chunks"
            )
        if chunk.number in self._numbers:
            return False
        self._numbers.add(chunk.number)
        return True


class Pipeline:
    """Forwards chunk by chunk to ``children``."""

    def __init__(self, children: tuple[Position, ...]) -> None:
        self._children = children
        self._arrival = Arrival()

    def handle(self, event: ChunkArrived) -> tuple[Command, ...]:
        """Handles an event; returns the commands."""
        if not self._arrival.add(event):
            return ()
        sent = tuple(SendChunk(child, event.number) for child in self._children)
        return (*sent, ReadObject()) if self._arrival.complete else sent


class StoreAndForward:
    """Waits for the whole object, and then sends each child its part."""

    def __init__(self, children: tuple[Position, ...]) -> None:
        self._children = children
        self._arrival = Arrival()

    def handle(self, event: ChunkArrived) -> tuple[Command, ...]:
        """Handles an event; returns the commands."""
        if not self._arrival.add(event) or not self._arrival.complete:
            return ()
        return (ReadObject(), *(SendPart(child) for child in self._children))
