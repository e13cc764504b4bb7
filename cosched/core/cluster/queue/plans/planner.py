"""Defines the interface of a plan, and the plan without backfill.

A planner keeps the waiting jobs of a domain and offers those that may start. A place
(``place``) has the jobs with nodes.

Each pass has rules: exceptions from the order, for example for jobs whose mates in another
domain are not ready.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.order import Order
from cosched.core.cluster.queue.places.place import Place, Spot
from cosched.core.cluster.queue.rules import NO_RULES, PassRules
from cosched.core.cluster.queue.waiting import WaitingList


@dataclass(slots=True)
class Counts:
    """Counts how often each branch of a decision was taken."""

    passes: int = 0  #: passes over the whole queue
    passes_over_newcomers: int = 0  #: passes that continued where the last one stopped
    started_in_order: int = 0  #: jobs that started at their turn
    backfilled: int = 0  #: jobs that started before an earlier one
    would_delay: int = 0  #: jobs not started, because they would delay the first one
    overruns: int = 0  #: running jobs that exceeded their expected end
    reservations_moved_up: int = 0  #: into a gap after an early end
    plans_made_again: int = 0  #: by conservative backfill

    def go_on_from(self, before: Counts) -> None:
        """Takes over the counts of the plan that this one replaces."""
        for field in fields(before):
            if hasattr(self, field.name):
                setattr(self, field.name, getattr(before, field.name))


#: Yields the offered jobs, each with its spot.
Offers: TypeAlias = "Iterator[tuple[Job, Spot]]"


class Planner(ABC):
    """Decides which jobs start, at a tick. waiting: the waiting jobs, by arrival.

    takes_rules: whether passes can have rules. wake_ns: after a pass, the time of the next
    decision if no event comes; None: there is none. promised: jobs that wait only for nodes
    that others are giving up; they are not in ``waiting``.
    """

    takes_rules = True
    wake_ns: int | None = None
    promised: Sequence[Job] = ()

    def __init__(self, place: Place, order: Order) -> None:
        self.counts = Counts()
        self.waiting = WaitingList(order)
        self._place = place
        self._order = order

    def submit(self, job: Job) -> None:
        """Adds a job to the queue, at its place by arrival."""
        self.waiting.add(job)

    def remove(self, job: Job) -> None:
        """Removes a waiting job that will not start."""
        self.waiting.remove(job)

    def resize(self) -> None:  # noqa: B027  (need not do more)
        """Called after the place has changed otherwise than by starts and ends."""

    def end(self, number: JobId, row: int, expected_ns: int, size: int) -> None:  # noqa: B027
        """Called after a job of a row released its nodes; its end was expected at
        ``expected_ns``."""

    @abstractmethod
    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        """Yields the jobs to start now, each once, in this order.

        The caller gives each job its spot before it takes the next one, and takes all of
        them.
        """


class InOrder(Planner):
    """No backfill: the first job that does not fit blocks all later jobs that could run in
    its rows."""

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        place = self._place
        self.counts.passes += 1
        if not place.free:
            return
        ranked = rules.apply(self.waiting.ranked(now_ns))
        positions: list[int] = []
        for position, job in enumerate(ranked):
            spot = place.find(job)
            if spot is None:
                if place.fits_alone(job) and place.block(job):
                    break
                continue
            yield job, spot
            positions.append(position)
        place.unblock()
        self.counts.started_in_order += len(positions)
        self.waiting.drop(ranked, positions)
