"""A node's part of the agreement: it writes its page as the root orders, and answers what
it reads there."""

from __future__ import annotations

from typing import Protocol

from cosched.core.cluster.resizing.agreement import (
    Checked,
    Collect,
    Collected,
    Commit,
    Finished,
    LoopEnded,
    Propose,
    Release,
)
from cosched.core.cluster.resizing.change import encode_change
from cosched.core.cluster.resizing.records import NO_BOUNDARY, Look, Phase, Result

Order = Collect | Propose | Commit | Release
Answer = Collected | Checked | LoopEnded | Finished


class Page(Protocol):
    """The page of a node."""

    def give_order(self, generation: int, order: bytes) -> None:
        """Writes the change that the next proposal is about."""

    def store_word(self, boundary: int, phase: Phase) -> None:
        """Stores the word; a later look sees what ranks stored before they loaded it."""

    def look(self, boundary: int) -> Look:
        """Returns what the ranks do."""

    def result(self) -> Result | None:
        """Returns the last change that a rank 0 on this node reported."""


class NodePart:
    """The part of one node, from order to order. place: of the node in the job."""

    def __init__(self, place: int, page: Page) -> None:
        self._place = place
        self._page = page
        self._generation = 0  # of the change under way; 0: there is none
        self._boundary = NO_BOUNDARY
        self._collects = False

    @property
    def is_open(self) -> bool:
        """Whether a change is under way, so that ``watch`` may have an answer."""
        return self._generation != 0

    def take(self, order: Order) -> tuple[Answer, ...]:
        """Carries out an order of the root; returns the answers."""
        match order:
            case Collect():
                self._begin(order.generation, NO_BOUNDARY)
                self._collects = True
            case Propose():
                return self._propose(order)
            case Commit():
                self._begin(order.generation, order.boundary)
                self._page.store_word(order.boundary, Phase.COMMITTED)
            case Release():
                self._page.store_word(0, Phase.NONE)
                self._generation = 0
        return ()

    def _begin(self, generation: int, boundary: int) -> None:
        self._generation, self._boundary = generation, boundary
        self._collects = False

    def _propose(self, order: Propose) -> tuple[Answer, ...]:
        generation, boundary = order.change.generation, order.boundary
        self._begin(generation, boundary)
        self._page.give_order(generation, encode_change(order.change))
        self._page.store_word(boundary, Phase.PROPOSED)
        look = self._page.look(boundary)
        return (Checked(self._place, generation, boundary, look.missed, look.largest),)

    def watch(self, ranks: int) -> tuple[Answer, ...]:
        """Reads the page, and returns the answers that it has now. Call it from time to
        time while a change is open. ranks: how many of the job are on this node."""
        if not self._generation:
            return ()
        generation = self._generation
        look = self._page.look(self._boundary)
        result = self._page.result()
        if result is not None and result.generation == generation:
            self._generation = 0
            return (Finished(generation, result.refused),)
        if look.ended:
            self._generation = 0
            return (LoopEnded(self._place, generation),)
        if self._collects and not look.joining and look.live == ranks:
            self._collects = False
            return (Collected(self._place, generation, look.largest),)
        return ()
