"""The queue of one domain as a pure state machine: submissions and ends in, starts out.

``QueueScheduler`` is made of an order (``order``), a backfill policy (``planner``,
``easy``, ``conservative``) and a ledger of nodes and running jobs (``ledger``). It has no
clock: the controller of a cluster and the simulator drive the same object. A domain knows
nothing of other domains.

Invariants, after every event: no node belongs to two jobs; every job submitted waits,
runs or has ended; no job starts before it was submitted.

Source of the policies: Mu'alem and Feitelson (TPDS 2001) for EASY and conservative, Tang
et al. (Cluster 2009 and IPDPS 2011) for WFP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cosched.core.errors import CoschedError
from cosched.core.queue.conservative import Conservative
from cosched.core.queue.easy import Easy
from cosched.core.queue.ledger import OVERRUN_NS, Ledger
from cosched.core.queue.messages import (
    Command,
    Event,
    Job,
    JobEnded,
    JobId,
    JobSubmitted,
    StartJob,
    Ticked,
    WakeAt,
)
from cosched.core.queue.nodes import Intervals
from cosched.core.queue.order import FCFS, WFP, Order
from cosched.core.queue.planner import Counts, InOrder, Planner


@dataclass(frozen=True, slots=True)
class Policy:
    """Who is considered first, and who may go before."""

    order: Order
    backfill: Callable[[Ledger, Order], Planner]


#: The policies people ask for by name.
POLICIES = {
    "fcfs": Policy(FCFS, InOrder),
    "easy": Policy(FCFS, Easy),
    "conservative": Policy(FCFS, Conservative),
    "wfp": Policy(WFP, Easy),
}


class QueueScheduler:
    """Decides when the jobs of one domain start. Deterministic; no clock of its own."""

    def __init__(
        self, nodes: Intervals, policy: Policy, overrun_ns: int = OVERRUN_NS
    ) -> None:
        self._ledger = Ledger(nodes, overrun_ns)
        self.planner = policy.backfill(self._ledger, policy.order)
        self._waiting: set[JobId] = set()
        self._wake_ns: int | None = None

    @property
    def queue(self) -> Sequence[Job]:
        """The waiting jobs by arrival, for reading."""
        return self.planner.queue

    @property
    def free(self) -> int:
        """Nodes that nobody has."""
        return self._ledger.free

    @property
    def counts(self) -> Counts:
        """How often each branch was taken."""
        return self.planner.counts

    def handle(self, event: Event) -> tuple[Command, ...]:
        """What follows from an event. Events come in the order of their times."""
        if isinstance(event, Ticked):
            return self._tick(event.now_ns)
        if isinstance(event, JobSubmitted):
            self._submit(event.job)
        elif isinstance(event, JobEnded):
            expected_ns, size = self._ledger.release(event.number)
            self.planner.end(expected_ns, size)
        else:
            raise TypeError(f"not an event of a queue: {event!r}")
        return ()

    def _submit(self, job: Job) -> None:
        number = job.number
        if not 1 <= job.size <= self._ledger.capacity:
            raise CoschedError(
                f"job {number} wants {job.size} nodes; "
                f"the machine has {self._ledger.capacity}"
            )
        if job.walltime_ns < 1:
            raise CoschedError(f"job {number} has no walltime")
        if number in self._waiting or number in self._ledger:
            raise CoschedError(f"job {number} was submitted before and has not ended")
        self._waiting.add(number)
        self.planner.submit(job)

    def _tick(self, now_ns: int) -> tuple[Command, ...]:
        occupy = self._ledger.occupy
        commands: list[Command] = []
        for job in self.planner.ready(now_ns):
            self._waiting.remove(job.number)
            commands.append(StartJob(job, occupy(job, now_ns)))
        wake_ns = self.planner.wake_ns()
        if wake_ns != self._wake_ns:
            self._wake_ns = wake_ns
            commands.append(WakeAt(wake_ns))
        return tuple(commands)
