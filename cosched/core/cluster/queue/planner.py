"""Defines the interface of a backfill policy, and the policy without backfill.

A planner keeps the queue of a domain and offers the jobs that may start. The ledger has
the running jobs.

Each pass has rules: exceptions from the order, for example for jobs whose mates in another
domain are not ready.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cosched.core.cluster.queue.ledger import Ledger
from cosched.core.cluster.queue.messages import Job, JobId
from cosched.core.cluster.queue.order import Order


@dataclass(slots=True)
class Counts:
    """Counts how often each branch of a decision was taken."""

    passes: int = 0
    passes_over_newcomers: int = 0  #: passes that continued where the last one stopped
    started_in_order: int = 0
    backfilled: int = 0
    overruns: int = 0  #: running jobs that exceeded their expected end
    reservations_moved_up: int = 0
    plans_made_again: int = 0


@dataclass(frozen=True, slots=True)
class PassRules:
    """Exceptions from the order, for one pass.

    first: these jobs come before all others, in this order. last: these jobs come after all
    others. left_out: these jobs are ignored and get no reservation. raised: these jobs move
    forward by this many places.
    """

    first: Sequence[JobId] = ()
    last: Collection[JobId] = ()
    left_out: Collection[JobId] = ()
    raised: Mapping[JobId, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.first or self.last or self.left_out or self.raised)

    def apply(self, ranked: Sequence[Job]) -> Sequence[Job]:
        """Returns the jobs in the order of this pass; ``ranked`` itself without rules."""
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

#: Yields the offered jobs.
Offers: TypeAlias = "Iterator[Job]"


class Planner(ABC):
    """Decides which jobs start, at a tick. queue: the waiting jobs, by arrival.

    takes_rules: whether passes can have rules.
    """

    takes_rules = True

    def __init__(self, ledger: Ledger, order: Order) -> None:
        self.counts = Counts()
        self.queue: list[Job] = []
        self._ledger = ledger
        self._order = order

    def submit(self, job: Job) -> None:
        """Adds a job to the queue."""
        self.queue.append(job)

    def restore(self, job: Job) -> None:
        """Puts an accepted job that did not start back into the queue."""
        insort(self.queue, job, key=arrival)

    def remove(self, job: Job) -> None:
        """Removes a waiting job that will not start."""
        self.queue.remove(job)

    def resize(self) -> None:  # noqa: B027  (need not do more)
        """Notes that nodes came into service or left it, which the ledger has."""

    def end(self, expected_ns: int, size: int) -> None:  # noqa: B027  (need not do more)
        """Notes that a job released its nodes, which the ledger has; its end was expected
        at ``expected_ns``."""

    @abstractmethod
    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        """Yields the jobs to start now, each once, in this order.

        The caller enters each job in the ledger before it takes the next one, and takes
        all of them.
        """

    def wake_ns(self) -> int | None:
        """Returns the time of the next decision if no event comes; valid after a pass."""
        return None


class InOrder(Planner):
    """No backfill: the first job that does not fit blocks all later jobs."""

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        ledger = self._ledger
        self.counts.passes += 1
        if not ledger.free:
            return
        ranked = rules.apply(self._order.rank(self.queue, now_ns))
        positions: list[int] = []
        for position, job in enumerate(ranked):
            if job.size > ledger.capacity:
                continue  # it waits until nodes return to service
            if not ledger.fits(job.size):
                break
            yield job
            positions.append(position)
        self.counts.started_in_order += len(positions)
        drop(self.queue, ranked, positions)


def arrival(job: Job) -> tuple[int, JobId]:
    """Returns the sort key of a job in a queue by arrival."""
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
