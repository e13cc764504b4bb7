"""Malleable jobs in virtual time: drives a ``MalleableScheduler`` with a stream of jobs.

The scheduler says when each job should end with the nodes that it has; here it ends just
then, since the execution models are all that is known of the jobs. A job that is resized
ends at another time, so what is on the heap for it may be out of date: an end that comes
too early is put off, one that comes too late is not heeded.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from cosched.core.cluster.malleable.messages import (
    Command,
    Event,
    JobEnded,
    JobSubmitted,
    MalleableJob,
    StartJob,
)
from cosched.core.cluster.malleable.scheduler import Counts, MalleableScheduler
from cosched.core.cluster.malleable.settings import Policy
from cosched.sim.engine import END, SUBMIT, Engine
from cosched.sim.queue.runs import Beat, ignore

NEVER = -1


@dataclass(frozen=True, slots=True)
class MalleableSchedule:
    """What became of the jobs, by their places in the stream.

    harvests: how often each gave up nodes.
    """

    submit_ns: array[int]
    start_ns: array[int]
    end_ns: array[int]
    harvests: array[int]
    counts: Counts


class MalleableDomain:
    """A stream of jobs on its way through a machine. A job's number is its place."""

    def __init__(
        self, engine: Engine, jobs: Sequence[MalleableJob], scheduler: MalleableScheduler
    ) -> None:
        self.start_ns = array("q", [NEVER]) * len(jobs)
        self.end_ns = array("q", [NEVER]) * len(jobs)
        self.harvests = array("q", [0]) * len(jobs)
        self.ended = 0
        self._engine = engine
        self._jobs = jobs
        self._scheduler = scheduler
        self._planned_ns = array("q", [NEVER]) * len(jobs)  # the earliest on the heap
        if jobs:
            engine.at(jobs[0].submit_ns, SUBMIT, self._submit, 0)

    def _submit(self, place: int) -> None:
        engine, jobs = self._engine, self._jobs
        self._tell(JobSubmitted(engine.now_ns, jobs[place]))
        place += 1
        if place < len(jobs):
            engine.at(jobs[place].submit_ns, SUBMIT, self._submit, place)

    def _end(self, place: int) -> None:
        now_ns = self._engine.now_ns
        if self._planned_ns[place] != now_ns:
            return  # it ended earlier, or has an earlier end on the heap
        end_ns = self.end_ns[place]
        if end_ns > now_ns:
            self._planned_ns[place] = end_ns
            self._engine.at(end_ns, END, self._end, place)
            return
        self._planned_ns[place] = NEVER
        self.ended += 1
        self.harvests[place] = self._scheduler.running[place].harvests
        self._tell(JobEnded(now_ns, place))

    def _tell(self, event: Event) -> None:
        for command in self._scheduler.handle(event):
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, StartJob):
            place = command.job.number
            self.start_ns[place] = self._engine.now_ns
        else:
            place = command.number
        end_ns = command.end_ns
        self.end_ns[place] = end_ns
        planned_ns = self._planned_ns[place]
        if planned_ns == NEVER or end_ns < planned_ns:
            self._planned_ns[place] = end_ns
            self._engine.at(end_ns, END, self._end, place)


def simulate(
    jobs: Sequence[MalleableJob], nodes: int, policy: Policy, beat: Beat = ignore
) -> MalleableSchedule:
    """Runs a stream of jobs, by time of submission, on a machine of so many nodes."""
    engine = Engine()
    scheduler = MalleableScheduler(nodes, policy)
    domain = MalleableDomain(engine, jobs, scheduler)
    engine.run(lambda: beat(domain.ended / max(1, len(jobs))))
    return MalleableSchedule(
        submit_ns=array("q", [job.submit_ns for job in jobs]),
        start_ns=domain.start_ns,
        end_ns=domain.end_ns,
        harvests=domain.harvests,
        counts=scheduler.counts,
    )
