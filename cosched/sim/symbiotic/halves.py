"""A machine whose nodes have two halves, in virtual time.

Drives a ``SymbioticScheduler`` with a stream of jobs. How fast a job runs depends on its
neighbours: as the speedup matrix says, and as the slowest of its halves, since the tasks
of a parallel job wait for each other. When a neighbour comes or goes, what is left of a
job goes on at another speed. A stretch during which a job has the same neighbour
everywhere is an observation for the scheduler's learner.

A job is submitted at its time, or later: at most so many wait at once, and the next one
comes when there is room.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cosched.core.cluster.queue.messages import JobEnded, Ticked
from cosched.core.cluster.symbiosis.matrix import SpeedupMatrix
from cosched.core.cluster.symbiosis.messages import (
    Event,
    JobSubmitted,
    SharingJob,
    SpeedObserved,
    StartSharing,
)
from cosched.core.cluster.symbiosis.scheduler import SymbioticScheduler
from cosched.sim.engine import DECIDE, END, SUBMIT, Engine
from cosched.sim.symbiotic.stream import StreamJob

NEVER = -1


@dataclass(slots=True)
class Running:
    """A job on its halves.

    left: nanoseconds of nodes of its own, at since_ns. beside: its neighbours since then.
    plan: counts the ends that were foreseen, of which only the last one comes true.
    """

    job: SharingJob
    halves: Sequence[int]
    left: float
    since_ns: int
    speed: float = 0.0
    beside: frozenset[str | None] = frozenset()
    plan: int = 0


class HalvedMachine:
    """A stream on its way through a scheduler.

    submit_ns, start_ns, end_ns: of each job, by its place in the stream. halves: where it
    ran.
    """

    def __init__(
        self,
        engine: Engine,
        stream: Sequence[StreamJob],
        scheduler: SymbioticScheduler,
        matrix: SpeedupMatrix,
        queue_limit: int,
    ) -> None:
        self.submit_ns = array("q", [NEVER]) * len(stream)
        self.start_ns = array("q", [NEVER]) * len(stream)
        self.end_ns = array("q", [NEVER]) * len(stream)
        self.halves: list[Sequence[int]] = [()] * len(stream)
        self.ended = 0
        self._engine = engine
        self._stream = stream
        self._scheduler = scheduler
        self._matrix = matrix
        self._queue_limit = queue_limit
        self._submitted = 0
        self._awaited = NEVER  # the job whose time of submission is on the heap
        self._running: dict[int, Running] = {}
        self._due_ns = NEVER
        engine.at(0, DECIDE, self._decide, None)

    def _tell(self, event: Event) -> None:
        for command in self._scheduler.handle(event):
            self._start(command)

    def _ask(self) -> None:
        """One decision at this moment, when all else is done."""
        if self._due_ns != self._engine.now_ns:
            self._due_ns = self._engine.now_ns
            self._engine.at(self._due_ns, DECIDE, self._decide, None)

    def _decide(self, _: None) -> None:
        self._due_ns = NEVER
        now_ns = self._engine.now_ns
        while True:
            self._submit_what_fits(now_ns)
            waiting = len(self._scheduler.queue)
            self._tell(Ticked(now_ns))
            # Whoever started made room for others, who may start at once, too.
            started = len(self._scheduler.queue) < waiting
            if not started or self._submitted == len(self._stream):
                break
        self._change_speeds()

    def _submit_what_fits(self, now_ns: int) -> None:
        while (
            self._submitted < len(self._stream)
            and len(self._scheduler.queue) < self._queue_limit
        ):
            job = self._stream[self._submitted].job
            if job.submit_ns > now_ns:
                if self._awaited != self._submitted:
                    self._awaited = self._submitted
                    self._engine.at(job.submit_ns, SUBMIT, self._arrived, None)
                return
            self.submit_ns[self._submitted] = now_ns
            self._submitted += 1
            self._tell(JobSubmitted(now_ns, replace(job, submit_ns=now_ns)))

    def _arrived(self, _: None) -> None:
        self._ask()

    def _start(self, command: StartSharing) -> None:
        number, now_ns = command.job.number, self._engine.now_ns
        self.start_ns[number] = now_ns
        self.halves[number] = command.halves
        self._running[number] = Running(
            command.job, command.halves, self._stream[number].run_ns, now_ns
        )

    def _end(self, which: tuple[int, int]) -> None:
        number, plan = which
        running = self._running.get(number)
        if running is None or running.plan != plan:
            return  # it was foreseen at a speed that the job has no more
        now_ns = self._engine.now_ns
        self._observe(running, now_ns)
        del self._running[number]
        self.end_ns[number] = now_ns
        self.ended += 1
        self._tell(JobEnded(now_ns, number))
        self._ask()

    def _change_speeds(self) -> None:
        """After jobs came or went: who has other neighbours, and another speed, from now
        on."""
        now_ns = self._engine.now_ns
        for number, running in self._running.items():
            beside = self._neighbours(running)
            if beside == running.beside:
                continue
            self._observe(running, now_ns)
            running.left -= (now_ns - running.since_ns) * running.speed
            running.beside, running.since_ns = beside, now_ns
            name = running.job.application
            running.speed = min(self._matrix.speedup(name, other) for other in beside)
            running.plan += 1
            end_ns = now_ns + max(0, round(running.left / running.speed))
            self._engine.at(end_ns, END, self._end, (number, running.plan))

    def _neighbours(self, running: Running) -> frozenset[str | None]:
        """Applications beside a job; None: halves beside it that nobody uses."""
        board = self._scheduler.board
        used = set(running.halves)
        found: set[str | None] = set()
        for half in running.halves:
            other = board.neighbour(half)
            closed = other is running.job and half ^ 1 not in used
            found.add(None if other is None or closed else other.application)
        return frozenset(found)

    def _observe(self, running: Running, now_ns: int) -> None:
        """What counters of the job would say of a stretch that is over."""
        if len(running.beside) == 1 and now_ns > running.since_ns:
            (beside,) = running.beside
            name = running.job.application
            self._tell(SpeedObserved(now_ns, name, beside, running.speed))
