"""Drives a ``MalleableScheduler`` with a stream of jobs, in virtual time.

The scheduler computes when each job should end with its present nodes. The execution
models describe the jobs fully, so each job ends exactly then. Resizing a job changes its
end. The end on the heap may therefore be out of date: one that comes too early is put
off, one that comes too late is ignored.
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
from cosched.sim.engine import END, NEVER, Engine, submit_in_order


@dataclass(frozen=True, slots=True)
class MalleableSchedule:
    """When the jobs of a stream were submitted, started and ended, by place in it.

    harvests: how often each job gave up nodes.
    """

    submit_ns: array[int]
    start_ns: array[int]
    end_ns: array[int]
    harvests: array[int]
    counts: Counts


class MalleableDomain:
    """Feeds a stream of jobs to a scheduler. A job's number is its place in the stream."""

    def __init__(
        self, engine: Engine, jobs: Sequence[MalleableJob], scheduler: MalleableScheduler
    ) -> None:
        self.schedule = MalleableSchedule(
            submit_ns=array("q", [job.submit_ns for job in jobs]),
            start_ns=array("q", [NEVER]) * len(jobs),
            end_ns=array("q", [NEVER]) * len(jobs),
            harvests=array("q", [0]) * len(jobs),
            counts=scheduler.counts,
        )
        self._engine = engine
        self._jobs = jobs
        self._scheduler = scheduler
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
        self.schedule.harvests[place] = self._scheduler.running[place].harvests
        self._feed(JobEnded(now_ns, place))

    def _feed(self, event: Event) -> None:
        for command in self._scheduler.handle(event):
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, StartJob):
            place = command.job.number
            self.schedule.start_ns[place] = self._engine.now_ns
        else:
            place = command.number
        end_ns = command.end_ns
        self.schedule.end_ns[place] = end_ns
        planned_ns = self._planned_ns[place]
        if planned_ns == NEVER or end_ns < planned_ns:
            self._planned_ns[place] = end_ns
            self._engine.at(end_ns, END, self._end, place)


def simulate(jobs: Sequence[MalleableJob], nodes: int, policy: Policy) -> MalleableSchedule:
    """Runs a stream of jobs, sorted by submission, on a machine of ``nodes`` nodes."""
    engine = Engine()
    domain = MalleableDomain(engine, jobs, MalleableScheduler(nodes, policy))
    engine.run(lambda: None)
    return domain.schedule
