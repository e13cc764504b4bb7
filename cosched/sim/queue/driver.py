"""Drives a ``QueueMachine`` with the jobs of a log, in virtual time.

The log says when jobs are submitted and how long they run. The scheduler receives each
submission and each end at its time, never before.
"""

from __future__ import annotations

from array import array
from typing import Any

from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.queue_commands import StartJob, WakeAt
from cosched.core.cluster.queue.queue_events import JobEnded, JobSubmitted, Machine, Ticked
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.virtual_time import END, NEVER, Decisions, VirtualTime, submit_in_order


class Domain:
    """Feeds a workload to the queue of one domain, and carries out its commands.

    start_ns: when each job started, by its index in the workload; ``NEVER`` before.
    nodes: the nodes of each job if ``keep_nodes`` was given; otherwise empty.
    """

    def __init__(
        self,
        engine: VirtualTime,
        workload: Workload,
        queue: Machine,
        estimates: Estimates,
        keep_nodes: bool = False,
    ) -> None:
        self.start_ns = array("q", [NEVER]) * len(workload)
        self.nodes: list[Intervals] = [()] * len(workload) if keep_nodes else []
        self.ended = 0
        self._engine = engine
        self._workload = workload
        self._queue = queue
        self._estimates = estimates
        self._decisions = Decisions(engine, self._tick)
        self._wake_ns: int | None = None
        submit_in_order(engine, workload.submit_ns, self._submit)

    def _submit(self, index: int) -> None:
        job = self._workload.job(index, self._estimates)
        self._feed(JobSubmitted(self._engine.now_ns, job))
        self._decisions.request()

    def _end(self, index: int) -> None:
        self.ended += 1
        self._feed(JobEnded(self._engine.now_ns, index))
        self._decisions.request()

    def _wake(self, wake_ns: int) -> None:
        if wake_ns == self._wake_ns:
            self._decisions.request()

    def _tick(self) -> None:
        self._feed(Ticked(self._engine.now_ns))

    def _feed(self, event: Any) -> None:
        """Passes the event to the queue and carries out its commands."""
        for command in self._queue.handle(event):
            if isinstance(command, StartJob):
                self._start(command)
            elif isinstance(command, WakeAt):
                self._wake_at(command)

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
