"""What a backfill policy is; and the simplest, none.

A planner keeps the queue of a domain and says which jobs start. It knows sizes and
walltimes; who runs is in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cosched.core.queue.ledger import Ledger
from cosched.core.queue.messages import Job
from cosched.core.queue.order import Order


@dataclass(slots=True)
class Counts:
    """How often each branch of a decision was taken."""

    passes: int = 0
    passes_over_newcomers: int = 0  #: that went on where the last one had stopped
    started_in_order: int = 0
    backfilled: int = 0
    overruns: int = 0  #: a running job outlived what was expected of it
    reservations_moved_up: int = 0
    plans_made_anew: int = 0


class Planner(Protocol):
    """Decides which jobs start, at a tick."""

    counts: Counts

    @property
    def queue(self) -> Sequence[Job]:
        """The waiting jobs, by arrival."""

    def submit(self, job: Job) -> None:
        """A job entered the queue."""

    def end(self, expected_ns: int, size: int) -> None:
        """A job that was expected to run until then gave its nodes back."""

    def ready(self, now_ns: int) -> Iterator[Job]:
        """The jobs to start now, each once, in this order.

        The caller enters each in the ledger before it asks for the next, and asks until
        there are no more.
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

    def end(self, expected_ns: int, size: int) -> None:
        """The ledger knows."""

    def ready(self, now_ns: int) -> Iterator[Job]:
        ledger = self._ledger
        self.counts.passes += 1
        if not ledger.free:
            return
        ranked = self._order.rank(self._queue, now_ns)
        started = 0
        for job in ranked:
            if job.size > ledger.free:
                break
            started += 1
            yield job
        self.counts.started_in_order += started
        drop(self._queue, ranked, range(started))

    def wake_ns(self) -> int | None:
        return None


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
