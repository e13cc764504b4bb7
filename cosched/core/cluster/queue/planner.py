"""What a backfill policy is; and the simplest, none.

A planner keeps the queue of a domain and says which jobs start. It knows sizes and
walltimes; who runs is in the ledger.

A caller may decline a job that it is offered (one that yields to wait for its mate in
another domain): the job keeps its place in the queue, and the rest of the pass goes on as
if it were not there.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, TypeAlias

from cosched.core.cluster.queue.ledger import Ledger
from cosched.core.cluster.queue.messages import Job, JobId
from cosched.core.cluster.queue.order import Order


@dataclass(slots=True)
class Counts:
    """How often each branch of a decision was taken."""

    passes: int = 0
    passes_over_newcomers: int = 0  #: that went on where the last one had stopped
    started_in_order: int = 0
    backfilled: int = 0
    declined: int = 0  #: offered to a caller that did not want it now
    overruns: int = 0  #: a running job outlived what was expected of it
    reservations_moved_up: int = 0
    plans_made_anew: int = 0


@dataclass(frozen=True, slots=True)
class PassRules:
    """Who is considered otherwise than the order says, for one pass.

    first: before all others, in this order. last: after all others. left_out: not at all,
    nor do they get a reservation. raised: so many places further to the front.
    """

    first: Sequence[JobId] = ()
    last: Collection[JobId] = ()
    left_out: Collection[JobId] = ()
    raised: Mapping[JobId, int] = field(default_factory=lambda: MappingProxyType({}))

    def __bool__(self) -> bool:
        return bool(self.first or self.last or self.left_out or self.raised)

    def apply(self, ranked: Sequence[Job]) -> Sequence[Job]:
        """The jobs in the order of this pass; ``ranked`` itself if there is no rule."""
        if not self:
            return ranked
        first = {number: place - len(self.first) for place, number in enumerate(self.first)}
        keyed = []
        for place, job in enumerate(ranked):
            number = job.number
            if number in self.left_out:
                continue
            raised = self.raised.get(number, 0)
            if number in first:
                key = (0, first[number], 0)
            elif number in self.last:
                key = (2, place, 0)
            else:
                key = (1, place - raised, -raised)
            keyed.append((key, place, job))
        return [job for _, _, job in sorted(keyed, key=lambda entry: entry[:2])]


NO_RULES = PassRules()

#: The jobs a planner offers; it is sent False for one that is declined.
Offers: TypeAlias = "Generator[Job, bool | None, None]"


class Planner(Protocol):
    """Decides which jobs start, at a tick."""

    counts: Counts

    @property
    def queue(self) -> Sequence[Job]:
        """The waiting jobs, by arrival."""

    def submit(self, job: Job) -> None:
        """A job entered the queue."""

    def restore(self, job: Job) -> None:
        """A job that was offered and taken did not start after all: it waits again."""

    def end(self, expected_ns: int, size: int) -> None:
        """A job that was expected to run until then gave its nodes back."""

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        """The jobs to start now, each once, in this order.

        The caller enters each in the ledger before it asks for the next, or declines it
        (sends False), and asks until there are no more.
        """

    def wake_ns(self) -> int | None:
        """When a decision is due even if nothing happens before; asked after a pass."""


class InOrder:
    """No backfill: the first job that does not fit holds up all behind it."""

    def __init__(self, ledger: Ledger, order: Order) -> None:
        self.counts = Counts()
        self._ledger = ledger
        self._order = order
        self._queue: list[Job] = []

    @property
    def queue(self) -> Sequence[Job]:
        return self._queue

    def submit(self, job: Job) -> None:
        self._queue.append(job)

    def restore(self, job: Job) -> None:
        insort(self._queue, job, key=arrival)

    def end(self, expected_ns: int, size: int) -> None:
        """The ledger knows."""

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        ledger = self._ledger
        self.counts.passes += 1
        if not ledger.free:
            return
        ranked = rules.apply(self._order.rank(self._queue, now_ns))
        positions: list[int] = []
        for position, job in enumerate(ranked):
            if job.size > ledger.free:
                break
            if (yield job) is False:
                self.counts.declined += 1
            else:
                positions.append(position)
        self.counts.started_in_order += len(positions)
        drop(self._queue, ranked, positions)

    def wake_ns(self) -> int | None:
        return None


def arrival(job: Job) -> tuple[int, JobId]:
    """The place of a job in a queue by arrival."""
    return job.submit_ns, job.number


def drop(queue: list[Job], ranked: Sequence[Job], positions: Sequence[int]) -> None:
    """Removes from ``queue`` the jobs at these ascending positions of ``ranked``."""
    if not positions:
        return
    if ranked is queue:
        for position in reversed(positions):
            del queue[position]
    else:
        gone = {ranked[position].number for position in positions}
        queue[:] = [job for job in queue if job.number not in gone]
