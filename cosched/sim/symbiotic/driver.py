"""Drives the queue of a machine whose nodes have two halves, in virtual time.

The speed of a job depends on its neighbours. The speedup matrix gives the speed of each of
its halves. The job runs as fast as its slowest half, since the tasks of a parallel job wait
for each other. When a neighbour starts or ends, the rest of the job runs at another speed.
While a job has the same neighbour on all its halves, its speed is an observation for the
scheduler's learner.

At most ``queue_limit`` jobs wait at once. A job that arrives at a full queue is submitted
as soon as there is room.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from cosched.core.cluster.queue.halves.halves import Halves
from cosched.core.cluster.queue.halves.sharing_job import SharingJob
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_commands import StartJob
from cosched.core.cluster.queue.queue_events import (
    Event,
    JobCancelled,
    JobEnded,
    JobSubmitted,
    SpeedObserved,
    Ticked,
)
from cosched.core.symbiosis.labels import LabelRecord
from cosched.core.symbiosis.limited import Found
from cosched.core.symbiosis.resources import Limits
from cosched.sim.symbiotic.matrix import SpeedupMatrix
from cosched.sim.symbiotic.stream import StreamJob
from cosched.sim.virtual_time import END, NEVER, Decisions, VirtualTime, submit_in_order


@dataclass(slots=True)
class SymbioticRun:
    """A running job."""

    number: int  #: its place in the stream
    application: str  #: its row in the speedup matrix
    halves: Sequence[int]  #: the node halves that it has
    left: float  #: its rest at since_ns, in ns on whole nodes
    since_ns: int  #: when its neighbours last changed, virtual time
    speed: float = 0.0  #: speedup since then, against whole nodes; 0 before the first
    #: The applications on the other halves since then; None in it: an idle half.
    beside: frozenset[str | None] = frozenset()
    #: The version of its expected end. An end on the heap with an older version is ignored.
    plan: int = 0


class SharedMachine:
    """Feeds a stream of jobs to a queue and runs them on shared nodes.

    submit_ns, start_ns, end_ns: each job's times, by its place in the stream. halves: the
    node halves of each job.
    """

    def __init__(
        self,
        engine: VirtualTime,
        stream: Sequence[StreamJob],
        halves: Halves,
        policy: Policy,
        matrix: SpeedupMatrix,
        queue_limit: int,
        labels: LabelRecord,
    ) -> None:
        """labels: what is known of users' labels; it learns from each ended job."""
        self.submit_ns = array("q", [NEVER]) * len(stream)
        self.start_ns = array("q", [NEVER]) * len(stream)
        self.end_ns = array("q", [NEVER]) * len(stream)
        self.halves: list[Sequence[int]] = [()] * len(stream)
        self.ended = 0
        self._engine = engine
        self._stream = stream
        self._board = halves.board
        self.queue = QueueMachine(halves, policy)
        self._matrix = matrix
        self._queue_limit = queue_limit
        self._labels = labels
        self._arrived = 0  # jobs whose time of submission has come
        self._submitted = 0  # those of them that had room in the queue
        self._running: dict[int, SymbioticRun] = {}
        self._decisions = Decisions(engine, self._decide)
        self._decisions.request()
        submit_in_order(engine, [entry.job.submit_ns for entry in stream], self._arrive)

    def _feed(self, event: Event) -> None:
        for command in self.queue.handle(event):
            if isinstance(command, StartJob):
                self._start(command)

    def _queue_has_room(self) -> bool:
        return len(self.queue.waiting) < self._queue_limit

    def _arrive(self, index: int) -> None:
        self._arrived = index + 1
        if self._queue_has_room():
            self._decisions.request()

    def _decide(self) -> None:
        now_ns = self._engine.now_ns
        while True:
            self._fill_queue(now_ns)
            waiting = len(self.queue.waiting)
            self._feed(Ticked(now_ns))
            # The jobs that started made room for others, which may start at once, too.
            started = len(self.queue.waiting) < waiting
            if not started or self._submitted == len(self._stream):
                break
        self._change_speeds()

    def _fill_queue(self, now_ns: int) -> None:
        while self._submitted < self._arrived and self._queue_has_room():
            entry = self._stream[self._submitted]
            job = entry.job
            counts = self._counts(entry)
            self.submit_ns[self._submitted] = now_ns
            self._submitted += 1
            self._feed(JobSubmitted(now_ns, replace(job, submit_ns=now_ns, limits=counts)))

    def _start(self, command: StartJob) -> None:
        number, now_ns = command.job.number, self._engine.now_ns
        self.start_ns[number] = now_ns
        halves = self._board.spot(number).halves
        self.halves[number] = halves
        application = self._stream[number].job.application
        self._running[number] = SymbioticRun(
            number, application, halves, self._stream[number].run_ns, now_ns
        )

    def _end(self, which: tuple[int, int]) -> None:
        number, plan = which
        running = self._running.get(number)
        if running is None or running.plan != plan:
            return  # the job's speed has changed since
        now_ns = self._engine.now_ns
        self._observe(running, now_ns)
        del self._running[number]
        self.end_ns[number] = now_ns
        self.ended += 1
        self._check_label(number, now_ns)
        self._feed(JobEnded(now_ns, number))
        self._decisions.request()

    def _check_label(self, number: int, now_ns: int) -> None:
        """Compares a label with what limited the job, which nodes measure."""
        entry = self._stream[number]
        job, found = entry.job, Found(entry.limits, "computing", 100)
        self._labels.add(entry.uid, job.application, job.limits, found, now_ns)
        for waiting in list(self.queue.waiting):
            other = self._stream[waiting.number]
            if other.uid == entry.uid:
                self._label_again(other, waiting, now_ns)

    def _label_again(self, entry: StreamJob, waiting: Job, now_ns: int) -> None:
        """Lets a waiting job count as what is known now. It keeps its place."""
        counts = self._counts(entry)
        if isinstance(waiting, SharingJob) and waiting.limits != counts:
            self._feed(JobCancelled(now_ns, waiting.number))
            self._feed(JobSubmitted(now_ns, replace(waiting, limits=counts)))

    def _counts(self, entry: StreamJob) -> Limits:
        """Returns by what a job counts as limited."""
        job = entry.job
        return self._labels.effective(entry.uid, job.application, job.limits)

    def _change_speeds(self) -> None:
        """Computes new speeds and ends for the jobs whose neighbours changed."""
        now_ns = self._engine.now_ns
        for number, running in self._running.items():
            beside = self._neighbours(running)
            if beside == running.beside:
                continue
            self._observe(running, now_ns)
            running.left -= (now_ns - running.since_ns) * running.speed
            running.beside, running.since_ns = beside, now_ns
            name = running.application
            running.speed = min(self._matrix.speedup(name, other) for other in beside)
            running.plan += 1
            end_ns = now_ns + max(0, round(running.left / running.speed))
            self._engine.at(end_ns, END, self._end, (number, running.plan))

    def _neighbours(self, running: SymbioticRun) -> frozenset[str | None]:
        """Returns the applications beside a job; ``None`` stands for an idle half."""
        used = set(running.halves)
        found: set[str | None] = set()
        for half in running.halves:
            other = self._board.neighbour(half)
            own = other is not None and other.number == running.number
            closed = own and half ^ 1 not in used
            found.add(None if other is None or closed else other.application)
        return frozenset(found)

    def _observe(self, running: SymbioticRun, now_ns: int) -> None:
        """Reports the speed that the job had, if all its halves had one neighbour."""
        if len(running.beside) == 1 and now_ns > running.since_ns:
            (beside,) = running.beside
            name = running.application
            self._feed(SpeedObserved(now_ns, name, beside, running.speed))
