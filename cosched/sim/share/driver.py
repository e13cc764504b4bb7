"""Runs a log on a machine whose nodes several jobs share, in virtual time.

The queue is that of a live domain (``core.cluster.queue``). This is its model of execution:
how fast each job progresses beside the others on its nodes (``turns``).
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict, deque
from dataclasses import dataclass

from msgspec.structs import replace

from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.least_stopped import bits, to_bits
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import StartJob
from cosched.core.cluster.queue.queue_events import JobEnded, JobSubmitted
from cosched.core.expectation import Likeness, PastRun, expect
from cosched.core.node.knowledge import Ended, Expectation, Knowledge
from cosched.core.node.settings import Settings
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.queue.driver import Domain
from cosched.sim.share.turns import Costs, SharingRun, Turns
from cosched.sim.virtual_time import END, NEVER, VirtualTime

#: The runs of a user that count, the last ones, as in the user's own record.
RUNS_MAX = 200
#: A job whose rest is shorter has ended, ns.
DONE_NS = 0.5


@dataclass(frozen=True, slots=True)
class Sharing:
    """The way in which the jobs share the machine."""

    queue: str  #: a policy of core.cluster.queue
    #: The longest requested time in each place of a node after the first, which is open to
    #: all jobs. Empty: a node has one place.
    short_ns: tuple[int, ...]
    settings: Settings  #: the nodes' least slice and least share
    costs: Costs  #: the time that sharing loses

    @property
    def dom(self) -> int:
        """The degree of multiprogramming: jobs that may share a node."""
        return 1 + len(self.short_ns)


class SharedMachine(Domain):
    """One run. Feeds the queue, and gives time to the jobs that it starts.

    end_ns: by the job's index in the workload. The queue expects a job to take its
    requested time for each job that may share its nodes.
    """

    def __init__(self, engine: VirtualTime, workload: Workload, sharing: Sharing) -> None:
        shorter_ns = [short_ns * sharing.dom for short_ns in sharing.short_ns]
        rows = Rows(((0, workload.machine - 1),), sharing.dom, shorter_ns)
        queue = QueueMachine(rows, POLICIES[sharing.queue])
        super().__init__(engine, workload, queue, Estimates.LOG)
        self.end_ns = array("q", [NEVER]) * len(workload)
        self.switches = 0
        self._dom = sharing.dom
        self._knowledge = Knowledge()
        self._expected = Expected(workload)
        self._turns = Turns(sharing.settings, sharing.costs)
        self._expectations: dict[int, Expectation] = {}
        self._running: dict[int, SharingRun] = {}
        self._since_ns = 0  # the jobs progressed until then
        self._changed = 0  # the nodes on which jobs came or left
        self._review = 0  # the number of the last review that was asked for

    def _submit(self, index: int) -> None:
        job = self._workload.job(index, self._estimates)
        walltime_ns = job.walltime_ns * self._dom
        job = replace(job, walltime_ns=walltime_ns)
        self._feed(JobSubmitted(self._engine.now_ns, job))
        self._decisions.request()

    def _tick(self) -> None:
        self._advance()
        super()._tick()
        self._allot()
        self._plan_review()

    def _plan_review(self) -> None:
        """Looks at the jobs again when one may end, or their order may change."""
        running = self._running.values()
        waits_ns = [job.end_in_ns for job in running]
        waits_ns += [
            self._turns.review_in_ns(job) for job in running if job.first and job.rivals > 1
        ]
        self._review += 1
        if waits_ns:
            at_ns = self._engine.now_ns + math.ceil(min(waits_ns))
            self._engine.at(at_ns, END, self._look, self._review)

    def _look(self, review: int) -> None:
        if review == self._review:
            self._advance()
            over = [job for job in self._running.values() if job.left_ns <= DONE_NS]
            for job in sorted(over, key=lambda job: job.index):
                self._end_job(job)
            self._decisions.request()

    def _advance(self) -> None:
        """Lets the jobs progress until now."""
        passed_ns = self._engine.now_ns - self._since_ns
        self._since_ns = self._engine.now_ns
        for job in self._running.values() if passed_ns else ():
            got_ns = passed_ns * job.rate
            job.age_ns += got_ns
            job.left_ns -= got_ns * job.speed

    def _end_job(self, job: SharingRun) -> None:
        now_ns = self._engine.now_ns
        del self._running[job.index]
        self._changed |= job.nodes
        self.end_ns[job.index] = now_ns
        self.ended += 1
        self.switches += job.switches
        expectation = self._expectations.pop(job.index)
        length_ns, user = round(job.age_ns), self._workload.user[job.index]
        expected_ns = expectation.mean_ns
        self._knowledge.learn([Ended(length_ns, expectation.kind, user, expected_ns)])
        self._expected.learn(job.index, length_ns)
        self._feed(JobEnded(now_ns, job.index))

    def _start(self, command: StartJob) -> None:
        index, nodes = command.job.number, to_bits(command.nodes)
        self.start_ns[index] = self._engine.now_ns
        expectation = self._expected.of(index)
        self._expectations[index] = expectation
        user = self._workload.user[index]
        lengths_ns = self._knowledge.lengths_of(expectation, user)
        run_ns = float(self._workload.run_ns[index])
        self._running[index] = SharingRun(index, nodes, lengths_ns, max(1.0, run_ns))
        self._changed |= nodes

    def _allot(self) -> None:
        running = self._running.values()
        if self._changed:
            on = Counter(node for job in running for node in bits(job.nodes))
            for job in running:
                if job.nodes & self._changed:
                    job.rivals = max(on[node] for node in bits(job.nodes))
        self._changed = 0
        self._turns.allot(running)


class Expected:
    """The past runs of each user.

    Jobs are alike if they have the user, the executable, the size and the requested time
    in common. Many logs do not have the executable; then the other three count.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._runs: dict[int, deque[PastRun]] = defaultdict(lambda: deque(maxlen=RUNS_MAX))

    def of(self, index: int) -> Expectation:
        """Returns the expectation of a job when it is submitted."""
        runs = self._runs[self._workload.user[index]]
        return Expectation(*expect(self._likeness(index), runs))

    def learn(self, index: int, length_ns: int) -> None:
        """Adds a job that has ended."""
        run = PastRun(self._likeness(index), length_ns)
        self._runs[self._workload.user[index]].append(run)

    def _likeness(self, index: int) -> Likeness:
        log = self._workload
        asked = str(log.walltime_ns[index])
        return Likeness(str(log.executable[index]), (asked,), log.size[index])
