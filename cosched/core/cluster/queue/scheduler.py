"""Runs the queue of one domain as a pure state machine: job events in, starts out.

``QueueScheduler`` combines an order (``order``), a backfill policy (``planner``, ``easy``,
``conservative``) and a ledger of nodes and running jobs (``ledger``). It has no clock; a
driver supplies the time. It has no state about other domains; ``core.cluster.coupling``
adds that. A gated job gets nodes at its turn, and begins when it is let go.

Invariants, after every event: no node belongs to two jobs; every job submitted waits,
runs or has ended; no job starts before it was submitted.

Source of the policies: Mu'alem and Feitelson (TPDS 2001) for EASY and conservative, Tang
et al. (Cluster 2009 and IPDPS 2011) for WFP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cosched.core.cluster.queue.conservative import Conservative
from cosched.core.cluster.queue.easy import Easy
from cosched.core.cluster.queue.ledger import OVERRUN_NS, Allocation, Ledger
from cosched.core.cluster.queue.messages import (
    Command,
    Event,
    Job,
    JobEnded,
    JobId,
    JobSubmitted,
    ReservedJobBegan,
    ReservedJobReleased,
    ReserveJob,
    StartJob,
    Ticked,
    WakeAt,
)
from cosched.core.cluster.queue.nodes import FreeNodes, Intervals
from cosched.core.cluster.queue.order import FCFS, WFP, Order
from cosched.core.cluster.queue.planner import (
    NO_RULES,
    Counts,
    InOrder,
    Planner,
)
from cosched.core.errors import CoschedError


@dataclass(frozen=True, slots=True)
class Policy:
    """An order of the queue and a backfill policy."""

    order: Order
    backfill: type[Planner]


#: The policies by their names on the command line.
POLICIES = {
    "fcfs": Policy(FCFS, InOrder),
    "easy": Policy(FCFS, Easy),
    "conservative": Policy(FCFS, Conservative),
    "wfp": Policy(WFP, Easy),
}


class QueueScheduler:
    """Decides when the jobs of one domain start. Deterministic, without a clock."""

    def __init__(
        self,
        nodes: Intervals,
        policy: Policy,
        overrun_ns: int = OVERRUN_NS,
        allocation: Allocation = FreeNodes,
    ) -> None:
        self._ledger = Ledger(nodes, overrun_ns, allocation)
        self.planner = policy.backfill(self._ledger, policy.order)
        self._waiting: set[JobId] = set()
        self._reserved: dict[JobId, Job] = {}
        #: Exceptions from the order, for all passes until they are changed.
        self.rules = NO_RULES
        #: The node time that the waiting jobs have asked for.
        self.waiting_ns = 0
        self._wake_ns: int | None = None

    @property
    def queue(self) -> Sequence[Job]:
        """Returns the waiting jobs by arrival."""
        return self.planner.queue

    @property
    def free(self) -> int:
        """Returns the number of free nodes."""
        return self._ledger.free

    @property
    def counts(self) -> Counts:
        """Returns how often each branch was taken."""
        return self.planner.counts

    @property
    def capacity(self) -> int:
        """Returns the number of all nodes."""
        return self._ledger.capacity

    @property
    def reserved(self) -> Mapping[JobId, Job]:
        """Returns the jobs that have nodes and have not begun, by number."""
        return self._reserved

    def adopt(self, policy: Policy) -> None:
        """Lets another policy decide from now on; running jobs keep their nodes."""
        old = self.planner
        self.planner = policy.backfill(self._ledger, policy.order)
        self.planner.counts = old.counts
        for job in old.queue:
            self.planner.submit(job)
        self.planner.resize()

    def waits(self, number: JobId) -> bool:
        """Returns whether a job waits in the queue."""
        return number in self._waiting

    def job(self, number: JobId) -> Job | None:
        """Returns a waiting job; None if no such job waits."""
        if number not in self._waiting:
            return None
        return next(job for job in self.planner.queue if job.number == number)

    def remove(self, job: Job) -> None:
        """Removes a waiting job that will not start."""
        self._note_gone(job)
        self.planner.remove(job)

    def occupy_exactly(self, job: Job, nodes: Intervals, since_ns: int) -> None:
        """Notes a job that runs on these nodes already."""
        self.check(job)
        self._ledger.occupy_exactly(job, nodes, since_ns)
        self.planner.resize()

    def withdraw(self, nodes: Intervals) -> list[JobId]:
        """Takes nodes out of service; returns the running jobs that have some of them."""
        hit = self._ledger.withdraw(nodes)
        self.planner.resize()
        return hit

    def reserved_on(self, nodes: Intervals) -> list[JobId]:
        """Returns the gated jobs that have some of these nodes and have not begun."""
        return [each for each in self._reserved if self._ledger.has_some_of(each, nodes)]

    def admit(self, nodes: Intervals) -> None:
        """Puts nodes into service."""
        self._ledger.admit(nodes)
        self.planner.resize()

    def reserve_exactly(self, job: Job, nodes: Intervals, since_ns: int) -> None:
        """Notes a gated job that has these nodes and has not begun."""
        self.occupy_exactly(job, nodes, since_ns)
        self._reserved[job.number] = job

    def _take_reserved(self, number: JobId) -> Job:
        job = self._reserved.pop(number, None)
        if job is None:
            raise CoschedError(f"job {number}: no nodes are reserved for it")
        return job

    def _release(self, number: JobId) -> None:
        job = self._take_reserved(number)
        self.planner.end(*self._ledger.release(number))
        self._note_waiting(job)
        self.planner.restore(job)

    def are_free(self, nodes: Intervals) -> bool:
        """Returns whether all of these nodes are in service and free."""
        return self._ledger.are_free(nodes)

    def ends(self) -> list[tuple[JobId, int]]:
        """Returns the running jobs and when they are expected to end."""
        return [(number, end_ns) for end_ns, number, _ in self._ledger.ends]

    def guess_ns(self, size: int, now_ns: int) -> int:
        """Returns about when ``size`` nodes are free if no job starts; changes nothing."""
        return self._ledger.guess_ns(size, now_ns)

    def expected_ns(self, size: int, now_ns: int) -> int:
        """Returns the time when ``size`` nodes are expected to be free if no job starts.

        Not for conservative backfill, which handles overruns only in its passes.
        """
        ledger = self._ledger
        if ledger.fits(size):
            return now_ns
        # The end of an overdue job is unknown, so it is expected to take some time more.
        self.counts.overruns += len(ledger.extend(now_ns))
        return ledger.shadow(size)[0]

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Takes one event and returns the commands. Events come in the order of time."""
        if isinstance(event, Ticked):
            return self._tick(event.now_ns)
        if isinstance(event, JobSubmitted):
            self._submit(event.job)
        elif isinstance(event, JobEnded):
            expected_ns, size = self._ledger.release(event.number)
            self._reserved.pop(event.number, None)
            self.planner.end(expected_ns, size)
        elif isinstance(event, ReservedJobBegan):
            job = self._take_reserved(event.number)
            self._ledger.restart(event.number, event.now_ns, job.walltime_ns)
        elif isinstance(event, ReservedJobReleased):
            self._release(event.number)
        else:
            raise TypeError(f"not an event of a queue: {event!r}")
        return ()

    def _submit(self, job: Job) -> None:
        self.check(job)
        self._note_waiting(job)
        self.planner.submit(job)

    def _note_waiting(self, job: Job) -> None:
        self._waiting.add(job.number)
        self.waiting_ns += job.size * job.walltime_ns

    def _note_gone(self, job: Job) -> None:
        self._waiting.remove(job.number)
        self.waiting_ns -= job.size * job.walltime_ns

    def check(self, job: Job) -> None:
        """Raises CoschedError for a job that can never run, or that is here already."""
        number = job.number
        if not 1 <= job.size <= self._ledger.total:
            raise CoschedError(
                f"job {number} wants {job.size} nodes; the machine has {self._ledger.total}"
            )
        if job.walltime_ns < 1:
            raise CoschedError(f"job {number} has no walltime")
        if number in self._waiting or number in self._ledger:
            raise CoschedError(f"job {number} was submitted before and has not ended")

    def _tick(self, now_ns: int) -> tuple[Command, ...]:
        commands: list[Command] = []
        for job in self.planner.ready(now_ns, self.rules):
            self._note_gone(job)
            nodes = self._ledger.occupy(job, now_ns)
            if job.gated:
                self._reserved[job.number] = job
                commands.append(ReserveJob(job, nodes))
            else:
                commands.append(StartJob(job, nodes))
        wake_ns = self.planner.wake_ns()
        if wake_ns != self._wake_ns:
            self._wake_ns = wake_ns
            commands.append(WakeAt(wake_ns))
        return tuple(commands)
