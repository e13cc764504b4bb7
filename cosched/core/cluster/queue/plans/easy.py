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

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.order import Order
from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.plans.planner import Offers, Planner
from cosched.core.cluster.queue.rules import NO_RULES, PassRules


class Easy(Planner):
    """EASY backfill over any order. reservation: the first job and its shadow time, after
    the last pass; None if no job waits that could run."""

    def __init__(self, place: Place, order: Order) -> None:
        super().__init__(place, order)
        # This many jobs at the head cannot start before a job ends.
        self._turned_down = 0
        self.reservation: tuple[Job, int] | None = None
        self._moved = 0  # the place's ``moved`` at the last pass

    def submit(self, job: Job) -> None:
        if not self.waiting.add(job):
            self._turned_down = 0

    def remove(self, job: Job) -> None:
        super().remove(job)
        self._turned_down = 0

    def resize(self) -> None:
        self._turned_down = 0

    def end(self, number: JobId, row: int, expected_ns: int, size: int) -> None:
        self._turned_down = 0

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        place, counts = self._place, self.counts
        counts.overruns += place.extend(now_ns)
        whole = place.takes_all
        ruled = rules is not NO_RULES and bool(rules)
        if ruled or not whole or place.moved != self._moved:
            self._moved = place.moved
            self._turned_down = 0
        queue = self.waiting.jobs
        ranked: Sequence[Job]
        positions: list[int] = []
        if self._turned_down:
            counts.passes_over_newcomers += 1
            ranked, first = queue, self._turned_down
        else:
            counts.passes += 1
            ranked, first = self._feasible(now_ns), 0
            if ruled:
                ranked = rules.apply(ranked)
            self.reservation = None
            for job in ranked:
                spot = place.find(job)
                if spot is None:
                    self.reservation = job, place.keep_for(job)
                    break
                first += 1
                yield job, spot
                positions.append(first - 1)
            counts.started_in_order += len(positions)
            first += 1  # skips the reserved job
        in_order = len(positions)
        shadow_ns, free = self.reservation[1] if self.reservation else 0, place.free
        for position, job in enumerate(islice(ranked, first, None) if free else (), first):
            if job.size > free:
                continue
            spot = place.find(job)
            if spot is None:
                continue
            if now_ns + job.walltime_ns > shadow_ns:
                spot = place.beside(job, spot)
                if spot is None:
                    counts.would_delay += 1
                    continue
            yield job, spot
            positions.append(position)
            free = place.free
            if not free:
                break
        counts.backfilled += len(positions) - in_order
        if positions:
            self.waiting.drop(ranked, positions)
        if self._order.by_arrival and not ruled and whole:
            self._turned_down = len(queue)

    def _feasible(self, now_ns: int) -> Sequence[Job]:
        """Returns the queue in its order, without jobs that are too large until nodes
        return to service."""
        place, ranked = self._place, self._order.rank(self.waiting.jobs, now_ns)
        if place.takes_all:
            return ranked
        return list(filter(place.fits_alone, ranked))
