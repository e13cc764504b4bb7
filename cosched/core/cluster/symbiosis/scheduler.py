"""Schedules jobs on node halves by EASY backfill, as a pure state machine.

Sections 2.4 and 3.3 of the paper. The first job without suitable halves gets a reservation:
the time when, by the walltimes of the running jobs, it would have some. A later job may
start if it is expected to end by then, or if the reserved job still fits beside it. A
started job keeps its halves until it ends.

Suitable halves depend on the neighbours. So a reservation is a plan, tried on a copy of the
allocation, not a count of nodes. A pass costs about queue x running jobs.

A slowed job may exceed its walltime. It is then expected to take ``overrun_ns`` more,
repeatedly, as in ``cosched.core.cluster.queue.places.ledger``.

Invariants, after every event: no half belongs to two jobs. Every submitted job waits, runs
or has ended. By the walltimes, no start delays the reserved job.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.messages import JobEnded, Ticked
from cosched.core.cluster.symbiosis.allocation import Allocation, Placed
from cosched.core.cluster.symbiosis.learner import Learner
from cosched.core.cluster.symbiosis.messages import (
    Command,
    Event,
    JobSubmitted,
    SharingJob,
    SpeedObserved,
    StartSharing,
)
from cosched.core.cluster.symbiosis.placement import Placement
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

OVERRUN_NS = 10 * NS_PER_S

Order: TypeAlias = Callable[[Sequence[SharingJob]], Sequence[SharingJob]]


def by_arrival(queue: Sequence[SharingJob]) -> Sequence[SharingJob]:
    """Orders jobs first come, first served."""
    return queue


def largest_first(queue: Sequence[SharingJob]) -> Sequence[SharingJob]:
    """Orders large jobs first, as DataStar did; equal jobs by arrival."""
    return sorted(queue, key=lambda job: -job.size)


ORDERS: dict[str, Order] = {"fcfs": by_arrival, "largest": largest_first}


@dataclass(slots=True)
class Counts:
    """Counts how often each branch of a decision was taken."""

    passes: int = 0
    started_in_order: int = 0
    backfilled: int = 0
    would_delay: int = 0  #: jobs not started, because they would delay the reserved job
    overruns: int = 0


class SymbioticScheduler:
    """Decides when jobs start and on which halves. Deterministic, without a clock."""

    def __init__(
        self,
        nodes: int,
        placement: Placement,
        order: Order,
        learner: Learner,
        overrun_ns: int = OVERRUN_NS,
    ) -> None:
        if nodes < 1:
            raise CoschedError(f"a machine of {nodes} nodes: want 1 or more")
        self.counts = Counts()
        self.learner = learner
        self.reservation: tuple[SharingJob, int] | None = None  #: after the last pass
        self._allocation = Allocation(nodes)
        self._placement = placement
        self._order = order
        self._overrun_ns = overrun_ns
        self._queue: list[SharingJob] = []
        self._ends: list[tuple[int, JobId]] = []  # expected, soonest first

    @property
    def queue(self) -> Sequence[SharingJob]:
        """Returns the waiting jobs by arrival."""
        return self._queue

    @property
    def allocation(self) -> Allocation:
        """Returns the job on each half, for reading."""
        return self._allocation

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Takes one event and returns the commands. Events come in the order of time."""
        if isinstance(event, Ticked):
            return tuple(self._pass(event.now_ns))
        if isinstance(event, JobSubmitted):
            self._submit(event.job)
        elif isinstance(event, JobEnded):
            self._end(event.number)
        elif isinstance(event, SpeedObserved):
            self.learner.observe(event.primary, event.background, event.speedup)
        else:
            raise TypeError(f"not an event of a machine with halves: {event!r}")
        return ()

    def _submit(self, job: SharingJob) -> None:
        if job.size < 1 or self._placement(job, Allocation(self._allocation.nodes)) is None:
            raise CoschedError(
                f"job {job.number} wants {job.size} halves of nodes; "
                f"the machine has {self._allocation.nodes} nodes"
            )
        if job.walltime_ns < 1:
            raise CoschedError(f"job {job.number} has no walltime")
        known = (other.number for other in self._queue)
        if job.number in known or any(job.number == number for _, number in self._ends):
            raise CoschedError(f"job {job.number} was submitted before and has not ended")
        self._queue.append(job)

    def _end(self, number: JobId) -> None:
        kept = [entry for entry in self._ends if entry[1] != number]
        if len(kept) == len(self._ends):
            raise CoschedError(f"job {number} ended but was not running")
        self._ends = kept
        self._allocation.remove(number)

    def _pass(self, now_ns: int) -> Iterator[StartSharing]:
        self.counts.passes += 1
        self._extend(now_ns)
        ranked = self._order(self._queue)
        started: set[JobId] = set()
        head = None
        waiting = iter(ranked)
        for job in waiting:
            spot = self._placement(job, self._allocation)
            if spot is None:
                head = job
                break
            started.add(job.number)
            self.counts.started_in_order += 1
            yield self._start(job, spot, now_ns)
        self.reservation = None
        if head is not None:
            for command in self._backfill(head, waiting, now_ns):
                started.add(command.job.number)
                yield command
        self._queue = [job for job in self._queue if job.number not in started]

    def _backfill(
        self, head: SharingJob, behind: Iterator[SharingJob], now_ns: int
    ) -> Iterator[StartSharing]:
        shadow_ns, later = self._shadow(head)
        self.reservation = head, shadow_ns
        for job in behind:
            # Most jobs of a long queue are larger than the free halves.
            spot = None
            if job.size <= self._allocation.free:
                spot = self._placement(job, self._allocation)
            if spot is None:
                continue
            if now_ns + job.walltime_ns > shadow_ns:
                trial = later.copy()
                trial.place(job, spot)
                if self._placement(head, trial) is None:
                    self.counts.would_delay += 1
                    continue
                later = trial
            self.counts.backfilled += 1
            yield self._start(job, spot, now_ns)

    def _shadow(self, head: SharingJob) -> tuple[int, Allocation]:
        """Returns the time when the head will fit, and the allocation at that time."""
        later = self._allocation.copy()
        at_ns = 0
        for end_ns, number in self._ends:
            enough = at_ns and end_ns > at_ns and later.free >= head.size
            if enough and self._placement(head, later) is not None:
                break
            later.remove(number)
            at_ns = end_ns
        return at_ns, later

    def _start(self, job: SharingJob, spot: Placed, now_ns: int) -> StartSharing:
        self._allocation.place(job, spot)
        insort(self._ends, (now_ns + job.walltime_ns, job.number))
        return StartSharing(job, spot.halves, spot.closed)

    def _extend(self, now_ns: int) -> None:
        """Adds ``overrun_ns`` to the expected end of each overdue job."""
        late = [number for end_ns, number in self._ends if end_ns <= now_ns]
        if late:
            self.counts.overruns += len(late)
            self._ends = [entry for entry in self._ends if entry[0] > now_ns]
            for number in late:
                insort(self._ends, (now_ns + self._overrun_ns, number))
