"""Drives the queue with a stream of malleable jobs, in virtual time.

The model of execution is that of ``core.cluster.queue.sizes``: it describes the jobs fully,
so each job ends when the queue expects its end. Resizing a job changes its end. The end on
the heap may therefore be out of date: one that comes too early is put off, one that comes
too late is ignored. As in the paper, a decision follows each arrival and each end.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import count
from cosched.core.cluster.queue.order import FCFS
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.plans.malleable import Malleable, SizeCounts
from cosched.core.cluster.queue.plans.planner import InOrder
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_events import (
    Event,
    JobEnded,
    JobSubmitted,
    ResizeJob,
    StartJob,
    Ticked,
)
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun
from cosched.core.cluster.queue.sizes.settings import SizePolicy
from cosched.sim.virtual_time import END, NEVER, VirtualTime, submit_in_order


@dataclass(frozen=True, slots=True)
class MalleableSchedule:
    """The times and the changes of the jobs of a stream, by place in it."""

    submit_ns: array[int]  #: when each job was submitted, virtual time
    start_ns: array[int]  #: when each job started
    end_ns: array[int]  #: when each job ended
    harvests: array[int]  #: how often each job gave up nodes
    counts: SizeCounts  #: the planner's changes of size


class MalleableDomain:
    """Feeds a stream of jobs to a queue. A job's number is its place in the stream."""

    def __init__(
        self, engine: VirtualTime, jobs: Sequence[MalleableJob], queue: QueueMachine
    ) -> None:
        assert isinstance(queue.planner, Malleable)
        self.schedule = MalleableSchedule(
            submit_ns=array("q", [job.submit_ns for job in jobs]),
            start_ns=array("q", [NEVER]) * len(jobs),
            end_ns=array("q", [NEVER]) * len(jobs),
            harvests=array("q", [0]) * len(jobs),
            counts=queue.planner.size_counts,
        )
        self._engine = engine
        self._jobs = jobs
        self._queue = queue
        self._running: dict[int, ResizableRun] = {}
        self._planned_ns = array("q", [NEVER]) * len(jobs)  # the earliest on the heap
        submit_in_order(engine, self.schedule.submit_ns, self._submit)

    def _submit(self, place: int) -> None:
        self._feed(JobSubmitted(self._engine.now_ns, self._jobs[place]))

    def _end(self, place: int) -> None:
        now_ns = self._engine.now_ns
        if self._planned_ns[place] != now_ns:
            return  # the job ended, or an earlier end is on the heap
        end_ns = self.schedule.end_ns[place]
        if end_ns > now_ns:
            self._planned_ns[place] = end_ns
            self._engine.at(end_ns, END, self._end, place)
            return
        self._planned_ns[place] = NEVER
        self.schedule.harvests[place] = self._running.pop(place).harvests
        self._feed(JobEnded(now_ns, place))

    def _feed(self, event: Event) -> None:
        self._queue.handle(event)
        for command in self._queue.handle(Ticked(event.now_ns)):
            if isinstance(command, StartJob):
                self._start(command)
            elif isinstance(command, ResizeJob):
                self._resize(command.number, count(command.nodes))

    def _start(self, command: StartJob) -> None:
        now_ns, place = self._engine.now_ns, command.job.number
        size = count(command.nodes)
        self._running[place] = ResizableRun(self._jobs[place], size, now_ns)
        self.schedule.start_ns[place] = now_ns
        self._resize(place, size)

    def _resize(self, place: int, size: int) -> None:
        running = self._running[place]
        running.size = size
        running.settle(self._engine.now_ns)
        end_ns = running.end_ns
        self.schedule.end_ns[place] = end_ns
        planned_ns = self._planned_ns[place]
        if planned_ns == NEVER or end_ns < planned_ns:
            self._planned_ns[place] = end_ns
            self._engine.at(end_ns, END, self._end, place)


def simulate(
    jobs: Sequence[MalleableJob], nodes: int, sizes: SizePolicy
) -> MalleableSchedule:
    """Runs a stream of jobs, sorted by submission, on a machine of ``nodes`` nodes."""
    engine = VirtualTime()
    queue = QueueMachine(Elastic(((0, nodes - 1),)), Policy(FCFS, InOrder, sizes))
    domain = MalleableDomain(engine, jobs, queue)
    engine.run(lambda: None)
    return domain.schedule
