"""Puts jobs back where they were before a restart: waiting, prepared or running."""

from __future__ import annotations

from msgspec.structs import replace

from cosched.cluster.engines.native.jobs import CANCELLED, Jobs
from cosched.cluster.engines.native.starts.start import ActiveStart
from cosched.cluster.record import Record, State
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.nodes import from_numbers
from cosched.core.cluster.queue.queue_events import JobRecovered
from cosched.core.errors import CoschedError

_NOT_AT_ONCE = "the controller restarted before the job could start"


class Restoring:
    """The way of stored jobs back into the queue and the starts of a domain."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def restore(self, record: Record) -> None:
        """Restores a stored job that waits."""
        self._jobs.records.restore(record)
        if record.submission.at_once:
            self._jobs.records.finish(record, State.CANCELLED, None, _NOT_AT_ONCE)
            return
        try:
            self._jobs.mates.announce(record)
        except CoschedError:
            return  # it has ended, and the reason is stored
        if record.state is State.QUEUED:
            if self._jobs.mates.has(record.number):
                self._jobs.entries.add_with_mates(record)
            else:
                self._jobs.entries.add_again(record)

    def recover(self, record: Record) -> ActiveStart:
        """Restores a job that runs; returns its start. Raises CoschedError for one that the
        queue refuses with the present settings; it is not restored then."""
        since_ns = record.started_ns or self._jobs.clock.now_ns()
        job = self._jobs.entries.recovered(record)
        mates = () if self._jobs.pairs is None else self._jobs.pairs.mates_of(record.number)
        start = self._recover(ActiveStart(record, mates=mates), job, since_ns)
        self._jobs.changes.recover(start)
        self._jobs.suspensions.recover(start)
        self._cancel_if_wanted(start)
        return start

    def recover_prepared(self, record: Record) -> None:
        """Restores a job that is prepared and waits for its mates."""
        job = replace(self._jobs.entries.recovered(record), waits_for_mates=True)
        start = ActiveStart(record, waits_for_mates=True, prepared=True)
        self._recover(start, job, self._jobs.clock.now_ns())
        self._cancel_if_wanted(start)

    def _recover(self, start: ActiveStart, job: Job, since_ns: int) -> ActiveStart:
        record = start.record
        self._jobs.records.restore(record)
        now_ns = self._jobs.clock.now_ns()
        nodes = self._jobs.members.numbers(record.nodes)
        halves = from_numbers(
            2 * self._jobs.members.by_name[name].number + part
            for name, part in zip(record.hosts, record.parts, strict=False)
        )
        terms = self._jobs.prerequisites.terms(record)
        event = JobRecovered(now_ns, job, nodes, since_ns, halves=halves, terms=terms)
        event = self._jobs.changes.completed(event, record)
        self._jobs.driver.handle(self._jobs.suspensions.completed(event, record))
        self._jobs.starts.recover(start)
        return start

    def _cancel_if_wanted(self, start: ActiveStart) -> None:
        if start.record.reason == CANCELLED:
            self._jobs.cancel_start(start)

    def waits_for_mates(self, record: Record) -> bool:
        """Returns whether a start of this job begins only together with its mates."""
        return record.state is State.STARTING and self._jobs.mates.has(record.number)

    def give_up(self, record: Record, state: State, reason: str) -> None:
        """Records a job that cannot be recovered, or lets it wait again if no task of it
        can have begun, or if its user allows it."""
        self._jobs.records.restore(record)
        self._jobs.changes.over(record)
        self._jobs.suspensions.over(record)
        if record.reason == CANCELLED:
            self._jobs.records.finish(record, State.CANCELLED, None, CANCELLED)
            return
        starting = record.state is State.STARTING and not record.submission.at_once
        if starting or record.submission.requeue:
            self._jobs.records.save(record, state=State.QUEUED, started_ns=None)
            self._jobs.entries.add_again(record)
        else:
            self._jobs.records.finish(record, state, None, reason)

    def complete(self) -> None:
        """Allows starts: all jobs of before the restart are known."""
        self._jobs.entries.add_unsized()
        ended = None if self._jobs.pairs is None else self._jobs.pairs.recovery_ended()
        if ended is not None:
            self._jobs.driver.handle(ended)
        self._jobs.recovered = True
        self._jobs.driver.thaw()
