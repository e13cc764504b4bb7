"""One domain in virtual time: drives a ``QueueScheduler`` with the jobs of a workload.

The scheduler is the one that runs live. Here the log says when jobs are submitted and
how long they run; the scheduler is told neither before its time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array

from cosched.core.cluster.queue.messages import (
    Event,
    JobEnded,
    JobSubmitted,
    StartJob,
    Ticked,
    WakeAt,
)
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.scheduler import QueueScheduler
from cosched.sim.engine import DECIDE, END, SUBMIT, Engine
from cosched.sim.logs.workload import Estimates, Workload

NEVER = -1


class Driver(ABC):
    """A workload on its way through a machine that decides.

    start_ns: when each job started, by its index in the workload; -1 before.
    nodes: what each got, if asked for; otherwise empty.
    """

    def __init__(
        self,
        engine: Engine,
        workload: Workload,
        estimates: Estimates,
        keep_nodes: bool = False,
    ) -> None:
        self.start_ns = array("q", [NEVER]) * len(workload)
        self.nodes: list[Intervals] = [()] * len(workload) if keep_nodes else []
        self.ended = 0
        self._engine = engine
        self._workload = workload
        self._estimates = estimates
        self._due_ns = NEVER  # of the decision that is on the heap for this moment
        self._wake_ns: int | None = None
        if len(workload):
            engine.at(workload.submit_ns[0], SUBMIT, self._submit, 0)

    def _submit(self, index: int) -> None:
        now_ns = self._engine.now_ns
        job = self._workload.job(index, self._estimates)
        self._tell(JobSubmitted(now_ns, job))
        self._decide(now_ns)
        index += 1
        if index < len(self.start_ns):
            self._engine.at(self._workload.submit_ns[index], SUBMIT, self._submit, index)

    def _end(self, index: int) -> None:
        now_ns = self._engine.now_ns
        self.ended += 1
        self._tell(JobEnded(now_ns, index))
        self._decide(now_ns)

    def _decide(self, now_ns: int) -> None:
        """Asks for one decision when all else of this moment is done."""
        if self._due_ns != now_ns:
            self._due_ns = now_ns
            self._engine.at(now_ns, DECIDE, self._tick, None)

    def _wake(self, asked_ns: int) -> None:
        if asked_ns == self._wake_ns:
            self._decide(asked_ns)

    def _tick(self, _: None) -> None:
        self._due_ns = NEVER  # a job that ends at once needs another decision
        self._tell(Ticked(self._engine.now_ns))

    @abstractmethod
    def _tell(self, event: Event) -> None:
        """Gives the event to the machine and carries out what follows."""

    def _start(self, command: StartJob) -> None:
        now_ns = self._engine.now_ns
        index = command.job.number
        self.start_ns[index] = now_ns
        if self.nodes:
            self.nodes[index] = command.nodes
        self._engine.at(now_ns + self._workload.run_ns[index], END, self._end, index)

    def _wake_at(self, command: WakeAt) -> None:
        self._wake_ns = command.at_ns
        if command.at_ns is not None:
            self._engine.at(command.at_ns, END, self._wake, command.at_ns)


class Domain(Driver):
    """A workload on its way through the queue of one domain."""

    def __init__(
        self,
        engine: Engine,
        workload: Workload,
        scheduler: QueueScheduler,
        estimates: Estimates,
        keep_nodes: bool = False,
    ) -> None:
        super().__init__(engine, workload, estimates, keep_nodes)
        self._scheduler = scheduler

    def _tell(self, event: Event) -> None:
        for command in self._scheduler.handle(event):
            if isinstance(command, StartJob):
                self._start(command)
            else:
                self._wake_at(command)
