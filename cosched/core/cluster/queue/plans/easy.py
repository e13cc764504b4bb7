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

from collections.abc import Generator, Hashable, Sequence
from itertools import islice
from typing import TypeAlias, TypeVar

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.order import Order
from cosched.core.cluster.queue.places.place import Place, Spot
from cosched.core.cluster.queue.plans.planner import Offers, Planner
from cosched.core.cluster.queue.rules import NO_RULES, PassRules

_Result = TypeVar("_Result")
#: A part of a pass: yields jobs with their spots, and returns a result.
_Pass: TypeAlias = "Generator[tuple[Job, Spot], None, _Result]"


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
        place, counts, queue = self._place, self.counts, self.waiting.jobs
        counts.overruns += place.extend(now_ns)
        whole, ruled = place.takes_all, bool(rules)
        if ruled or not whole or place.moved != self._moved:
            self._moved = place.moved
            self._turned_down = 0
        if self._turned_down:
            counts.passes_over_newcomers += 1
            ranked: Sequence[Job] = queue
            in_order, first = 0, self._turned_down
        else:
            counts.passes += 1
            ranked = rules.apply(self._feasible(now_ns))
            in_order = yield from self._start_in_order(ranked)
            first = in_order + 1  # behind the reserved job
        later = yield from self._backfill(ranked, first, now_ns)
        counts.started_in_order += in_order
        counts.backfilled += len(later)
        if in_order or later:
            self.waiting.drop(ranked, [*range(in_order), *later])
        if self._order.by_arrival and not ruled and whole:
            self._turned_down = len(queue)

    def _start_in_order(self, ranked: Sequence[Job]) -> _Pass[int]:
        """Yields the first jobs, as long as they fit, and reserves a spot for the next one.
        Returns how many it has yielded."""
        self.reservation = None
        for started, job in enumerate(ranked):
            spot = self._place.find(job)
            if spot is None:
                self.reservation = job, self._place.keep_for(job)
                return started
            yield job, spot
        return len(ranked)

    def _backfill(self, ranked: Sequence[Job], first: int, now_ns: int) -> _Pass[list[int]]:
        """Yields jobs from the place ``first`` on that do not delay the reserved one.
        Returns their places."""
        place, started = self._place, list[int]()
        shadow_ns, free = self.reservation[1] if self.reservation else 0, place.free
        homeless = set[Hashable]()  # shapes of jobs without a spot
        delaying = set[Hashable]()  # the same of those that would delay, until one starts
        for position, job in enumerate(islice(ranked, first, None) if free else (), first):
            if job.size > free:
                continue
            shape, late = place.shape(job), now_ns + job.walltime_ns > shadow_ns
            if shape in homeless:
                continue
            if late and shape in delaying:
                self.counts.would_delay += 1
                continue
            spot = place.find(job)
            if spot is None:
                homeless.add(shape)
                continue
            if late:
                spot = place.beside(job, spot)
                if spot is None:
                    self.counts.would_delay += 1
                    delaying.add(shape)
                    continue
            delaying.clear()
            yield job, spot
            started.append(position)
            free = place.free
            if not free:
                break
        return started

    def _feasible(self, now_ns: int) -> Sequence[Job]:
        """Returns the queue in its order, without jobs that are too large until nodes
        return to service."""
        place, ranked = self._place, self.waiting.ranked(now_ns)
        if place.takes_all:
            return ranked
        fits: dict[Hashable, bool] = {}  # by shape
        for job in ranked:
            shape = place.shape(job)
            if shape not in fits:
                fits[shape] = place.fits_alone(job)
        return [job for job in ranked if fits[place.shape(job)]]
