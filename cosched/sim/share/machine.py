"""Runs a log on a machine whose nodes several jobs share, in virtual time."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from cosched.core.cluster.queue.messages import (
    Job,
    JobEnded,
    JobSubmitted,
    StartJob,
    Ticked,
)
from cosched.core.cluster.queue.scheduler import POLICIES, QueueScheduler
from cosched.core.node.knowledge import Ended, Expectation, Knowledge
from cosched.core.node.settings import Settings
from cosched.sim.engine import NEVER
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.share.expected import Expected
from cosched.sim.share.places import Places
from cosched.sim.share.turns import Costs, Running, Turns

#: A job whose rest is shorter has ended, ns.
DONE_NS = 0.5


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of places, as many as jobs may share a node. The first row is open to all
    jobs. short_ns: the longest requested time in each further row."""

    short_ns: tuple[int, ...] = ()

    @property
    def dom(self) -> int:
        """The degree of multiprogramming."""
        return 1 + len(self.short_ns)

    def open_to(self, asked_ns: int) -> list[int]:
        """Returns the rows for a job of this requested time."""
        further = enumerate(self.short_ns, 1)
        return [0, *(row for row, most_ns in further if asked_ns <= most_ns)]


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the jobs share the machine. queue: a policy of ``core.cluster.queue``."""

    queue: str
    rows: Rows
    settings: Settings
    costs: Costs


class SharedMachine:
    """One run. Feeds the queue, places jobs that it starts, and gives them time.

    start_ns, end_ns: by the job's index in the workload. Each row of places has a queue of
    its own, which expects a job to take its requested time for each job that may share its
    nodes. A job joins the open row in which it probably starts soonest.
    """

    def __init__(self, workload: Workload, sharing: Sharing) -> None:
        self.start_ns = array("q", [NEVER]) * len(workload)
        self.end_ns = array("q", [NEVER]) * len(workload)
        self.switches = 0
        self.ended = 0
        self._workload = workload
        self._rows = sharing.rows
        nodes = ((0, workload.machine - 1),)
        policy = POLICIES[sharing.queue]
        self._queues = [QueueScheduler(nodes, policy) for _ in range(sharing.rows.dom)]
        self._row: dict[int, int] = {}  # by the job's index
        self._places = Places(workload.machine, sharing.rows.dom)
        self._knowledge = Knowledge()
        self._expected = Expected(workload)
        self._turns = Turns(sharing.settings, sharing.costs)
        self._expectations: dict[int, Expectation] = {}
        self._running: dict[int, Running] = {}
        self._now_ns = 0
        self._changed = 0  # the nodes on which jobs came or left
        self._next = 0  # the next job that is submitted

    def run(self, progress: Callable[[float], None]) -> None:
        """Runs until all jobs have ended."""
        total = len(self._workload)
        while self.ended < total:
            self._advance(self._next_event_ns())
            self._end_jobs()
            self._submit_jobs()
            self._start_jobs()
            self._allot()
            progress(self.ended / total)

    def _next_event_ns(self) -> int:
        waits_ns = [job.end_in_ns for job in self._running.values()]
        waits_ns += [
            self._turns.review_in_ns(job)
            for job in self._running.values()
            if job.first and job.rivals > 1
        ]
        times_ns = [self._now_ns + math.ceil(min(waits_ns))] if waits_ns else []
        if self._next < len(self._workload):
            times_ns.append(self._workload.submit_ns[self._next])
        return max(self._now_ns, min(times_ns))

    def _advance(self, now_ns: int) -> None:
        passed_ns = now_ns - self._now_ns
        self._now_ns = now_ns
        for job in self._running.values():
            got_ns = passed_ns * job.rate
            job.age_ns += got_ns
            job.left_ns -= got_ns * job.speed

    def _end_jobs(self) -> None:
        now_ns = self._now_ns
        over = [job for job in self._running.values() if job.left_ns <= DONE_NS]
        for job in sorted(over, key=lambda job: job.index):
            del self._running[job.index]
            row = self._row.pop(job.index)
            self._places.give(row, job.nodes)
            self._changed |= job.nodes
            self._queues[row].handle(JobEnded(now_ns, job.index))
            self.end_ns[job.index] = now_ns
            self.ended += 1
            self.switches += job.switches
            expectation = self._expectations.pop(job.index)
            length_ns, user = round(job.age_ns), self._workload.user[job.index]
            expected_ns = expectation.mean_ns
            self._knowledge.learn([Ended(length_ns, expectation.kind, user, expected_ns)])
            self._expected.learn(job.index, length_ns)

    def _submit_jobs(self) -> None:
        log = self._workload
        while self._next < len(log) and log.submit_ns[self._next] <= self._now_ns:
            index = self._next
            asked = log.job(index, Estimates.LOG)
            job = Job(
                index, asked.size, asked.walltime_ns * self._rows.dom, asked.submit_ns
            )
            row = self._soonest_row(job)
            self._row[index] = row
            self._queues[row].handle(JobSubmitted(job.submit_ns, job))
            self._start_jobs()
            self._next += 1

    def _soonest_row(self, job: Job) -> int:
        def start_ns(row: int) -> tuple[int, int]:
            queue = self._queues[row]
            waiting = sum(other.size * other.walltime_ns for other in queue.queue)
            now_ns = self._now_ns
            return queue.expected_ns(job.size, now_ns) + waiting // queue.capacity, row

        asked_ns = self._workload.walltime_ns[job.number]
        return min(self._rows.open_to(asked_ns), key=start_ns)

    def _start_jobs(self) -> None:
        now_ns = self._now_ns
        for row, queue in enumerate(self._queues):
            for command in queue.handle(Ticked(now_ns)):
                if isinstance(command, StartJob):
                    job = command.job
                    nodes = self._places.take(row, job.size)
                    self._start(job.number, nodes, now_ns)

    def _start(self, index: int, nodes: int, now_ns: int) -> None:
        expectation = self._expected.of(index)
        self._expectations[index] = expectation
        user = self._workload.user[index]
        lengths_ns = self._knowledge.lengths_of(expectation, user)
        run_ns = float(self._workload.run_ns[index])
        self._running[index] = Running(index, nodes, lengths_ns, max(1.0, run_ns))
        self.start_ns[index] = now_ns
        self._changed |= nodes

    def _allot(self) -> None:
        for job in self._running.values():
            if job.nodes & self._changed:
                job.rivals = self._places.most(job.nodes)
        self._changed = 0
        self._turns.allot(self._running.values())
