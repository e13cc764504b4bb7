"""Lets several jobs share each node: rows of places (Ousterhout, 1982).

Each row is the whole domain with a queue of its own, and a job runs within one row. So the
jobs of a row never share a node, and a node has as many places as there are rows.

A job joins the row in which it probably starts soonest. A prediction can be wrong, so a job
that waits moves to a row that can start it at once and in which no job waits.

Invariants, after every tick: those of ``DomainQueue`` in each row; a job is in one row; no
job waits while an empty row has nodes for it.
"""

from __future__ import annotations

from cosched.core.cluster.queue.domain import (
    Command,
    DomainQueue,
    Event,
    JobCancelled,
    JobFailedToStart,
    JobRecovered,
)
from cosched.core.cluster.queue.messages import (
    Job,
    JobEnded,
    JobId,
    JobSubmitted,
    Ticked,
    WakeAt,
)
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.scheduler import Policy
from cosched.core.errors import CoschedError


class SharedQueue:
    """Decides when the jobs of a live domain start whose nodes take ``rows`` jobs each."""

    def __init__(self, nodes: Intervals, policy: Policy, grace_ns: int, rows: int) -> None:
        self._rows = [DomainQueue(nodes, policy, grace_ns) for _ in range(rows)]
        self._row: dict[JobId, DomainQueue] = {}
        self._wakes: dict[int, int | None] = {}
        self._wake_ns: int | None = None

    @property
    def rows(self) -> tuple[DomainQueue, ...]:
        """Returns the rows, for reading."""
        return tuple(self._rows)

    @property
    def waiting(self) -> list[Job]:
        """Returns the waiting jobs of all rows by arrival."""
        jobs = [job for row in self._rows for job in row.scheduler.queue]
        return sorted(jobs, key=lambda job: (job.submit_ns, job.number))

    @property
    def free(self) -> int:
        """Returns the number of free nodes in the row that has most."""
        return max(row.scheduler.free for row in self._rows)

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Takes one event and returns the commands. Raises CoschedError for a job that does
        not exist; nothing has changed then."""
        match event:
            case Ticked():
                return self._tick(event.now_ns)
            case JobSubmitted():
                row = self._soonest(event.job, event.now_ns)
                commands = row.handle(event)
                self._row[event.job.number] = row
                return commands
            case JobRecovered():
                return self._recover(event)
            case JobCancelled():
                row = self._row_of(event.number)
                if row.scheduler.job(event.number) is not None:
                    del self._row[event.number]
                return row.handle(event)
            case JobFailedToStart():
                row = self._row_of(event.number)
                commands = row.handle(event)
                if row.scheduler.job(event.number) is None:
                    del self._row[event.number]
                return commands
            case JobEnded():
                commands = self._row_of(event.number).handle(event)
                del self._row[event.number]
                return commands
            case _:
                return tuple(command for row in self._rows for command in row.handle(event))

    def _row_of(self, number: JobId) -> DomainQueue:
        if number not in self._row:
            raise CoschedError(f"job {number}: neither waits nor runs")
        return self._row[number]

    def _recover(self, event: JobRecovered) -> tuple[Command, ...]:
        for row in self._rows:
            if row.scheduler.are_free(event.nodes):
                commands = row.handle(event)
                self._row[event.job.number] = row
                return commands
        raise CoschedError(f"job {event.job.number}: its nodes are not free")

    def _soonest(self, job: Job, now_ns: int) -> DomainQueue:
        def start_ns(row: DomainQueue) -> int:
            queue = row.scheduler
            waiting = sum(other.size * other.walltime_ns for other in queue.queue)
            return queue.guess_ns(job.size, now_ns) + waiting // max(1, queue.capacity)

        return min(self._rows, key=start_ns)

    def _tick(self, now_ns: int) -> tuple[Command, ...]:
        commands: list[Command] = []
        for row in self._rows:
            commands += self._tick_row(row, now_ns)
        commands += self._move(now_ns)
        wake_ns = min((at for at in self._wakes.values() if at is not None), default=None)
        if wake_ns != self._wake_ns:
            self._wake_ns = wake_ns
            commands.append(WakeAt(wake_ns))
        return tuple(commands)

    def _tick_row(self, row: DomainQueue, now_ns: int) -> list[Command]:
        commands: list[Command] = []
        for command in row.handle(Ticked(now_ns)):
            if isinstance(command, WakeAt):
                self._wakes[id(row)] = command.at_ns
            else:
                commands.append(command)
        return commands

    def _move(self, now_ns: int) -> list[Command]:
        """Moves waiting jobs to rows without waiting jobs that start them now."""
        commands: list[Command] = []
        for job in self.waiting if len(self._rows) > 1 else []:
            old = self._row[job.number]
            for row in self._rows:
                empty = not row.scheduler.queue and job.size <= row.scheduler.free
                if row is not old and empty:
                    old.handle(JobCancelled(now_ns, job.number))
                    row.handle(JobSubmitted(now_ns, job))
                    self._row[job.number] = row
                    commands += self._tick_row(row, now_ns)
                    commands += self._tick_row(old, now_ns)
                    break
        return commands
