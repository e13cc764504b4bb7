"""Stops all ranks of a malleable job at the same boundary, without a message of MPI.

A boundary is the begin of an iteration; boundaries have the numbers of iterations. The
job's root agent runs the machine. Each node has a page (``cosched/shm/page.py``), in which
its ranks store the boundary that they came to last.

1. *Collecting.* Each node reports the largest boundary of its ranks, once all are at work.
2. *Proposing.* The root proposes a larger one, B. Each node stores the proposal in its page
   and then reads the ranks' boundaries: a rank that may have passed B makes B *missed*. A
   rank that comes to B waits there.
3. *Committed.* If no node missed B, all ranks stop there and carry out the change. If one
   did, the root proposes a larger boundary, which releases the ranks that wait at B.
4. *Withdrawing.* A committed change can be withdrawn as long as no rank has come to B. Each
   node stores B as proposed again, and then reads the ranks' boundaries. If a rank may have
   begun the change, the root commits B again.

A node that collects, or has a proposal, reports a rank whose loop ends. A rank that waits
needs no message of others, and a proposal is decided without a rank that comes to B. So no
agreement waits for a message between ranks. A missed boundary shows how many iterations
pass during one exchange; the next proposal leaves twice as many.

Proposals and withdrawals are numbered. A node may carry out one twice, if the process with
its page was killed. So an answer counts only for the proposal or withdrawal that it names.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from cosched.core.bounds import Natural, Slots
from cosched.core.cluster.resizing.change import (
    CHANGE_MOST,
    Change,
    Generation,
    encode_change,
)
from cosched.core.cluster.resizing.page_records import NO_BOUNDARY

#: Why a change is refused if the job comes to no boundary any more.
LOOP_ENDED = "the job's loop has ended"
#: Each proposal leaves at least twice as many iterations as the one before it.
PROPOSALS_MOST = 32


class Stage(Enum):
    """How far the agreement on a change is."""

    IDLE = "idle"  #: there is no change
    COLLECTING = "collecting"
    PROPOSING = "proposing"
    COMMITTED = "committed"  #: the ranks carry the change out
    WITHDRAWING = "withdrawing"  #: it is committed, but perhaps no rank has begun it


#: Stages in which ranks may carry out the change.
_DECIDED = (Stage.COMMITTED, Stage.WITHDRAWING)


# --- events: the orders of the queue, and the answers of nodes ----------------------------


class Ordered(Struct, frozen=True):
    """The queue orders a change. Only an idle machine takes one."""

    change: Change  #: all of it


class Withdrawn(Struct, frozen=True):
    """The queue withdraws its order, as when it takes too long."""

    reason: str  #: one line


class Collected(Struct, frozen=True, array_like=True, tag=True):
    """All ranks of a node are at work."""

    place: Slots  #: the node
    generation: Generation  #: of the order that it answers
    largest: Natural  #: the largest boundary that one of them came to


class Checked(Struct, frozen=True, array_like=True, tag=True):
    """A node has stored a proposal, and then looked at its ranks."""

    place: Slots  #: the node
    generation: Generation  #: of the change
    number: Natural  #: of the order that it answers
    missed: bool  #: a rank may have passed it
    largest: Natural  #: the largest boundary that one of them came to
    begun: bool = False  #: if it was committed before, a rank may carry out the change


class LoopEnded(Struct, frozen=True, array_like=True, tag=True):
    """The loop of a rank has ended before the boundary of the change."""

    place: Slots  #: the node
    generation: Generation  #: of the change


class PageLost(Struct, frozen=True, array_like=True, tag=True):
    """A node cannot read or write its page any more."""

    place: Slots  #: the node
    generation: Generation  #: of the order that it cannot carry out
    reason: str  #: one line


class Finished(Struct, frozen=True, array_like=True, tag=True):
    """The job has reported the result of a change."""

    generation: Generation  #: of the change
    refused: str = ""  #: why the job is as it was; empty: the change is done


# --- commands -----------------------------------------------------------------------------


class Collect(Struct, frozen=True, array_like=True, tag=True):
    """Let a node report when all its ranks are at work."""

    place: Slots  #: the node
    generation: Generation  #: of the change


class Propose(Struct, frozen=True, array_like=True, tag=True):
    """Let a node store the change and a proposed boundary, and check its ranks."""

    place: Slots  #: the node
    change: Change  #: all of it
    boundary: Natural  #: that is proposed
    number: Natural  #: grows with each proposal and withdrawal


class Commit(Struct, frozen=True, array_like=True, tag=True):
    """Let a node store that the boundary is committed. Nodes of arriving ranks get this
    command alone: rank 0 may be there after the change, and reports it there."""

    place: Slots  #: the node
    generation: Generation  #: of the change
    boundary: Natural  #: that is proposed


class Release(Struct, frozen=True, array_like=True, tag=True):
    """Let a node end its part of a change, so that ranks that wait at a proposal go on."""

    place: Slots  #: the node
    generation: Generation  #: of the change


class ReportDone(Struct, frozen=True):
    """Report to the queue that the job has its new size."""

    generation: Generation  #: of the change


class ReportRefused(Struct, frozen=True):
    """Report to the queue that the job is as it was, and why."""

    generation: Generation  #: of the change
    reason: str  #: one line


class ReportLost(Struct, frozen=True):
    """Report that the page of a node was lost, and that ranks may wait there for ever: the
    job cannot go on."""

    generation: Generation  #: of the change
    place: Slots  #: the node


Event = Ordered | Withdrawn | Collected | Checked | LoopEnded | PageLost | Finished
Command = Collect | Propose | Commit | Release | ReportDone | ReportRefused | ReportLost


class Agreement:
    """The agreements on one job's changes, one after the other. places: the nodes that have
    ranks of the job."""

    def __init__(self, places: Iterable[int]) -> None:
        self.places = frozenset(places)
        self.stage = Stage.IDLE
        self._change: Change | None = None
        self._answers: dict[int, int] = {}  # the largest boundary of each place
        self._boundary = 0  # the last one that was proposed; it only grows
        self._number = 0  # of the last proposal or withdrawal
        self._withdrawn = ""  # why the queue wants a committed change no more
        self._margin = 1
        self._proposals = 0  # of this change

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Handles an event; returns the commands."""
        if isinstance(event, Ordered):
            return self._order(event.change)
        change = self._change
        if change is None:
            return ()
        if isinstance(event, Withdrawn):
            return self._withdraw(change, event.reason)
        if event.generation != change.generation:
            return ()  # a late answer about an earlier change
        if isinstance(event, Collected):
            return self._collect(change, event)
        if isinstance(event, Checked):
            return self._check(change, event)
        if isinstance(event, Finished):
            return self._finish(change, event)
        if event.place not in self._involved(change):
            return ()  # the node has left, or has no part in this change yet
        if isinstance(event, PageLost):
            return self._lose_page(change, event)
        return self._end_loop(change)

    def _order(self, change: Change) -> tuple[Command, ...]:
        if self._change is not None:
            reason = f"change {self._change.generation} of the job is not over"
            return (ReportRefused(change.generation, reason),)
        size = len(encode_change(change))
        if size > CHANGE_MOST:
            reason = f"the order has {size} bytes; the most is {CHANGE_MOST}"
            return (ReportRefused(change.generation, reason),)
        self._change = change
        self.stage = Stage.COLLECTING
        self._answers = {}
        self._margin, self._proposals = 1, 0
        return tuple(Collect(place, change.generation) for place in self._sorted())

    def _collect(self, change: Change, event: Collected) -> tuple[Command, ...]:
        if self.stage is not Stage.COLLECTING or event.place not in self.places:
            return ()
        self._answers[event.place] = event.largest
        if len(self._answers) < len(self.places):
            return ()
        return self._propose(change, max(self._answers.values()))

    def _propose(self, change: Change, largest: int) -> tuple[Command, ...]:
        """Proposes the next boundary. Refuses the change if the word of a page has no room
        for it, or after so many proposals that the ranks' steps must be false."""
        boundary = max(self._boundary, largest) + self._margin
        if boundary >= NO_BOUNDARY:
            return self._refuse(change, f"a rank reports step {largest}: it is too large")
        if self._proposals == PROPOSALS_MOST:
            return self._refuse(
                change, f"the ranks have passed {PROPOSALS_MOST} proposed boundaries"
            )
        self.stage = Stage.PROPOSING
        self._proposals += 1
        self._boundary = boundary
        return self._ask(change)

    def _ask(self, change: Change) -> tuple[Command, ...]:
        """Asks all nodes about the boundary. Earlier answers do not count any more."""
        self._number += 1
        self._answers = {}
        return tuple(
            Propose(place, change, self._boundary, self._number) for place in self._sorted()
        )

    def _withdraw(self, change: Change, reason: str) -> tuple[Command, ...]:
        if self.stage not in _DECIDED:
            return self._refuse(change, reason)
        self._withdrawn = reason
        if self.stage is Stage.WITHDRAWING:
            return ()
        self.stage = Stage.WITHDRAWING
        return self._ask(change)

    def _check(self, change: Change, event: Checked) -> tuple[Command, ...]:
        is_open = self.stage in (Stage.PROPOSING, Stage.WITHDRAWING)
        if not is_open or event.place not in self.places:
            return ()
        if event.number != self._number:
            return ()
        if self.stage is Stage.WITHDRAWING:
            return self._check_withdrawal(change, event)
        if event.missed:
            self._margin = 2 * (self._margin + max(0, event.largest - self._boundary))
            return self._propose(change, event.largest)
        self._answers[event.place] = event.largest
        if len(self._answers) < len(self.places):
            return ()
        return self._commit(change)

    def _check_withdrawal(self, change: Change, event: Checked) -> tuple[Command, ...]:
        if event.begun:
            return self._commit(change)
        self._answers[event.place] = event.largest
        if len(self._answers) < len(self.places):
            return ()
        return self._refuse(change, self._withdrawn, even_committed=True)

    def _commit(self, change: Change) -> tuple[Command, ...]:
        self.stage = Stage.COMMITTED
        return tuple(
            Commit(each, change.generation, self._boundary)
            for each in self._involved(change)
        )

    def _end_loop(self, change: Change) -> tuple[Command, ...]:
        """A program leaves its loop with all ranks at the same iteration. So none of them
        comes to the boundary any more, even to a committed one."""
        return self._refuse(change, LOOP_ENDED, even_committed=True)

    def _refuse(
        self, change: Change, reason: str, *, even_committed: bool = False
    ) -> tuple[Command, ...]:
        if self.stage in _DECIDED and not even_committed:
            return ()  # the ranks cannot be stopped any more
        return (*self._release(change), ReportRefused(change.generation, reason))

    def _lose_page(self, change: Change, event: PageLost) -> tuple[Command, ...]:
        """Without its page a node can release no rank that waits at a proposal, and report
        no result."""
        if self.stage is Stage.COLLECTING:
            return self._refuse(change, event.reason)
        self._forget()
        return (ReportLost(change.generation, event.place),)

    def _finish(self, change: Change, event: Finished) -> tuple[Command, ...]:
        if self.stage not in _DECIDED:
            return ()
        releases = self._release(change)
        if event.refused:
            return (*releases, ReportRefused(change.generation, event.refused))
        arriving = {arrival.place for arrival in change.arriving}
        self.places = (self.places - frozenset(change.leaving)) | arriving
        return (*releases, ReportDone(change.generation))

    def _involved(self, change: Change) -> list[int]:
        """Returns the places that have an order of this change. Those of arriving ranks
        have one once it is committed."""
        if self.stage not in _DECIDED:
            return self._sorted()
        return sorted(self.places | {arrival.place for arrival in change.arriving})

    def _release(self, change: Change) -> tuple[Command, ...]:
        """Ends the change on all nodes that take part in it."""
        releases = tuple(
            Release(place, change.generation) for place in self._involved(change)
        )
        self._forget()
        return releases

    def _forget(self) -> None:
        self._change = None
        self.stage = Stage.IDLE
        self._answers = {}

    def _sorted(self) -> list[int]:
        return sorted(self.places)
