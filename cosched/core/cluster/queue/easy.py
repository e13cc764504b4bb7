"""Plans jobs by EASY backfill (Lifka, JSSPP 1995; Mu'alem and Feitelson, TPDS 2001).

The first job that does not fit gets a reservation at the *shadow time*, when enough
nodes are expected to be free. A later job may start now if it is expected to end by then.
It may also start on *extra* nodes, which the reserved job will not need. So no start delays
the first job beyond its reservation; other jobs may be delayed.

In order of arrival, a pass skips the jobs that the last pass turned down. They cannot
start until a job ends or an expected end is put off: the free nodes have not grown, and
time only brings the shadow time nearer. So a submission costs the same for any length of
the queue. After a pass with rules the next pass reads all jobs.

Limits: if the order changes with time, the reservation may move to another job. A
reservation is only as good as the walltimes of the running jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from cosched.core.cluster.queue.ledger import Ledger
from cosched.core.cluster.queue.messages import Job
from cosched.core.cluster.queue.order import Order
from cosched.core.cluster.queue.planner import (
    NO_RULES,
    Offers,
    PassRules,
    Planner,
    drop,
)


class Easy(Planner):
    """EASY backfill over any order."""

    def __init__(self, ledger: Ledger, order: Order) -> None:
        super().__init__(ledger, order)
        # This many jobs at the head cannot start before a job ends.
        self._turned_down = 0
        self._shadow_ns = 0
        self._extra = 0
        self._moved = 0  # the ledger's ``moved`` at the last pass

    @property
    def reservation(self) -> tuple[Job, int] | None:
        """Returns the reserved job and its shadow time, after the last pass.

        None if no job waits or if the order is not the order of arrival."""
        return (self.queue[0], self._shadow_ns) if self._turned_down else None

    def restore(self, job: Job) -> None:
        super().restore(job)
        self._turned_down = 0

    def remove(self, job: Job) -> None:
        super().remove(job)
        self._turned_down = 0

    def end(self, expected_ns: int, size: int) -> None:
        self._turned_down = 0

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        ledger = self._ledger
        if ledger.ends and ledger.ends[0][0] <= now_ns:
            self.counts.overruns += len(ledger.extend(now_ns))
        whole = ledger.capacity == ledger.total
        if rules or not whole or ledger.moved != self._moved:
            self._moved = ledger.moved
            self._turned_down = 0
        queue = self.queue
        ranked: Sequence[Job]
        positions: list[int] = []
        if self._turned_down:
            self.counts.passes_over_newcomers += 1
            ranked, first = queue, self._turned_down
        else:
            self.counts.passes += 1
            ranked, first = rules.apply(self._feasible(now_ns)), 0
            for job in ranked:
                if not ledger.fits(job.size):
                    self._shadow_ns, self._extra = ledger.shadow(job.size)
                    break
                first += 1
                yield job
                positions.append(first - 1)
            self.counts.started_in_order += len(positions)
            first += 1  # skips the reserved job
        in_order = len(positions)
        shadow_ns, extra, free = self._shadow_ns, self._extra, ledger.free
        for position, job in enumerate(islice(ranked, first, None) if free else (), first):
            size = job.size
            if size > free or not ledger.fits(size):
                continue
            beyond = now_ns + job.walltime_ns > shadow_ns
            if beyond and not ledger.fits_beside(size, extra):
                continue
            yield job
            if beyond:
                extra -= size
            positions.append(position)
            free = ledger.free
            if not free:
                break
        self._extra = extra
        self.counts.backfilled += len(positions) - in_order
        drop(queue, ranked, positions)
        if self._order.by_arrival and not rules and whole:
            self._turned_down = len(queue)

    def _feasible(self, now_ns: int) -> Sequence[Job]:
        """Returns the queue in its order, without jobs that are too large until nodes
        return to service."""
        ledger, ranked = self._ledger, self._order.rank(self.queue, now_ns)
        if ledger.capacity == ledger.total:
            return ranked
        return [job for job in ranked if job.size <= ledger.capacity]
