"""EASY backfill (Lifka, JSSPP 1995; Mu'alem and Feitelson, TPDS 2001).

The first job that does not fit gets a reservation at the *shadow time*, when enough
nodes are expected to be free. A job behind it may start now if it is expected to end by
then, or if it takes only *extra* nodes, those that the reserved job will leave over. So
no start delays the first job beyond its reservation; later ones may be delayed.

In order of arrival a pass need not look again at a job that it has turned down until a
job ends or the end of one is put off: what is free and the reservation have not changed
for the better, and time only brings the shadow time nearer. A submission then costs the
same however long the queue is. This does not hold after a pass in which a job was
declined or that had rules of its own: the next one looks at all.

Limits: where the order changes with time, so may the job that has the reservation. A
reservation is as good as the walltimes of the running jobs.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from itertools import islice

from cosched.core.cluster.queue.ledger import Ledger
from cosched.core.cluster.queue.messages import Job
from cosched.core.cluster.queue.order import Order
from cosched.core.cluster.queue.planner import (
    NO_RULES,
    Counts,
    Offers,
    PassRules,
    arrival,
    drop,
)


class Easy:
    """EASY backfill over any order."""

    def __init__(self, ledger: Ledger, order: Order) -> None:
        self.counts = Counts()
        self._ledger = ledger
        self._order = order
        self._queue: list[Job] = []
        # How many jobs, from the first, are known not to start before a job ends; and
        # the reservation this holds for.
        self._turned_down = 0
        self._shadow_ns = 0
        self._extra = 0
        self._moved = 0  # the ledger's ends, when they were looked at last

    @property
    def queue(self) -> Sequence[Job]:
        return self._queue

    @property
    def reservation(self) -> tuple[Job, int] | None:
        """The job that nothing may delay and its shadow time, as the last pass left them;
        None if nobody waits or the order is not that of arrival."""
        return (self._queue[0], self._shadow_ns) if self._turned_down else None

    def submit(self, job: Job) -> None:
        self._queue.append(job)

    def restore(self, job: Job) -> None:
        insort(self._queue, job, key=arrival)
        self._turned_down = 0

    def end(self, expected_ns: int, size: int) -> None:
        self._turned_down = 0

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        ledger = self._ledger
        declined = 0
        if ledger.ends and ledger.ends[0][0] <= now_ns:
            self.counts.overruns += len(ledger.extend(now_ns))
        if rules or ledger.moved != self._moved:
            self._moved = ledger.moved
            self._turned_down = 0
        queue = self._queue
        ranked: Sequence[Job]
        positions: list[int] = []
        if self._turned_down:
            self.counts.passes_over_newcomers += 1
            ranked, first = queue, self._turned_down
        else:
            self.counts.passes += 1
            ranked, first = rules.apply(self._order.rank(queue, now_ns)), 0
            for job in ranked:
                if job.size > ledger.free:
                    self._shadow_ns, self._extra = ledger.shadow(job.size)
                    break
                first += 1
                if (yield job) is False:
                    declined += 1
                else:
                    positions.append(first - 1)
            self.counts.started_in_order += len(positions)
            first += 1  # the one with the reservation
        in_order = len(positions)
        shadow_ns, extra, free = self._shadow_ns, self._extra, ledger.free
        for position, job in enumerate(islice(ranked, first, None) if free else (), first):
            size = job.size
            if size > free:
                continue
            beyond = now_ns + job.walltime_ns > shadow_ns
            if beyond and size > extra:
                continue
            if (yield job) is False:
                declined += 1
                continue
            if beyond:
                extra -= size
            positions.append(position)
            free = ledger.free
            if not free:
                break
        self._extra = extra
        self.counts.backfilled += len(positions) - in_order
        drop(queue, ranked, positions)
        self.counts.declined += declined
        if self._order.by_arrival and not declined and not rules:
            self._turned_down = len(queue)

    def wake_ns(self) -> int | None:
        return None
