"""One domain in virtual time: drives a ``QueueScheduler`` with the jobs of a workload.

The scheduler is the one that runs live. Here the log says when jobs are submitted and
how long they run; the scheduler is told neither before its time.
"""

from __future__ import annotations

from array import array

from cosched.core.queue.messages import JobEnded, JobSubmitted, StartJob, Ticked
from cosched.core.queue.nodes import Intervals
from cosched.core.queue.scheduler import QueueScheduler
from cosched.sim.engine import DECIDE, END, SUBMIT, Engine
from cosched.sim.workload import Estimates, Workload

NEVER = -1


class Domain:
    """A workload on its way through a scheduler.

    start_ns: when each job started, by its index in the workload; -1 before.
    nodes: what each got, if asked for; otherwise empty.
    """

    def __init__(
        self,
        engine: Engine,
        workload: Workload,
        scheduler: QueueScheduler,
        estimates: Estimates,
        keep_nodes: bool = False,
    ) -> None:
        self.start_ns = array("q", [NEVER]) * len(workload)
        self.nodes: list[Intervals] = [()] * len(workload) if keep_nodes else []
        self.ended = 0
        self._engine = engine
        self._workload = workload
        self._scheduler = scheduler
        self._estimates = estimates
        self._due_ns = NEVER  # of the decision that is on the heap for this moment
        self._wake_ns: int | None = None
        if len(workload):
            engine.at(workload.submit_ns[0], SUBMIT, self._submit, 0)

    def _submit(self, index: int) -> None:
        now_ns = self._engine.now_ns
        job = self._workload.job(index, self._estimates)
        self._scheduler.handle(JobSubmitted(now_ns, job))
        self._decide(now_ns)
        index += 1
        if index < len(self.start_ns):
            self._engine.at(self._workload.submit_ns[index], SUBMIT, self._submit, index)

    def _end(self, index: int) -> None:
        now_ns = self._engine.now_ns
        self.ended += 1
        self._scheduler.handle(JobEnded(now_ns, index))
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
        engine = self._engine
        now_ns = engine.now_ns
        self._due_ns = NEVER  # a job that ends at once needs another decision
        run_ns = self._workload.run_ns
        for command in self._scheduler.handle(Ticked(now_ns)):
            if isinstance(command, StartJob):
                index = command.job.number
                self.start_ns[index] = now_ns
                if self.nodes:
                    self.nodes[index] = command.nodes
                engine.at(now_ns + run_ns[index], END, self._end, index)
            else:
                self._wake_ns = command.at_ns
                if command.at_ns is not None:
                    engine.at(command.at_ns, END, self._wake, command.at_ns)
