"""Carries out a node's part of a change of size: writes and reads its page."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec
from msgspec import Struct

from cosched.core.bounds import NATURAL_MOST, SLOTS_MOST, Natural, Slots
from cosched.core.cluster.resizing.agreement import (
    Checked,
    Collect,
    Collected,
    Commit,
    Finished,
    LoopEnded,
    PageLost,
    Propose,
    Release,
)
from cosched.core.cluster.resizing.change import encode_change
from cosched.core.cluster.resizing.page_records import (
    NO_BOUNDARY,
    PREDICTED_MOST,
    Look,
    Pace,
    Phase,
    Result,
    Wants,
)

#: What the program of a job predicts; its user may write any numbers.
Predicted = Annotated[
    tuple[tuple[Slots, Natural], ...], msgspec.Meta(max_length=PREDICTED_MOST)
]


class Sensed(Struct, frozen=True, array_like=True, tag=True):
    """The pace and the wishes of a job, from the node of its rank 0."""

    place: Slots  #: the node
    iterations: Natural  #: since the job has its size
    exec_ns: Natural  #: their time
    comm_ns: Natural  #: the part in which rank 0 waited in MPI; 0: not measured
    minimum: Slots  #: nodes that the program needs; 0: not known
    ideal: Slots  #: nodes at which it is fastest; 0: not known
    wanted: Slots  #: nodes that it asked for last; 0: it did not ask
    asked: Natural  #: how often it asked on this node
    #: Numbers of nodes and the predicted time of an iteration on each, in ns; (): none.
    predicted: Predicted = ()


Order = Collect | Propose | Commit | Release
Answer = Collected | Checked | LoopEnded | Finished | PageLost


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

    def paces(self) -> dict[int, Pace]:
        """Returns the pace of each rank at work on this node."""

    def wants(self) -> Wants:
        """Returns what the job's rank 0 wrote last on this node."""

    def prediction(self) -> tuple[tuple[int, int], ...]:
        """Returns what the job's rank 0 predicted last on this node."""


class NodePart:
    """The part of one node, from order to order. place: of the node in the job.

    Each order may be carried out a second time, as when the process with the page was
    killed: nothing but the last one must be.
    """

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
                # An earlier change is over, though its release may not have come here.
                self._page.store_word(0, Phase.NONE)
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
        begun = look.largest >= boundary or look.leaving > 0 or look.joining > 0
        checked = Checked(
            self._place, generation, order.number, look.missed, look.largest, begun=begun
        )
        return (checked,)

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

    def sense(self) -> Sensed | None:
        """Returns what the job's rank 0 does and wants; None if it is not at work here. The
        page's user may write any number there."""
        pace = self._page.paces().get(0)
        if pace is None:
            return None
        wants = self._page.wants()
        return Sensed(
            self._place,
            min(pace.steps, NATURAL_MOST),
            min(pace.exec_ns, NATURAL_MOST),
            min(pace.comm_ns, NATURAL_MOST),
            min(wants.minimum, SLOTS_MOST),
            min(wants.ideal, SLOTS_MOST),
            min(wants.wanted, SLOTS_MOST),
            min(wants.asked, NATURAL_MOST),
            tuple(
                (min(nodes, SLOTS_MOST), min(exec_ns, NATURAL_MOST))
                for nodes, exec_ns in self._page.prediction()
            ),
        )
