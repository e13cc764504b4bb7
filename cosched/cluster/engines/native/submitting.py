"""Takes jobs from users into the queue, and ends the jobs that users cancel.

A job is stored before its user gets the number.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.cluster.engines.native.jobs import CANCELLED, Jobs
from cosched.cluster.engines.native.room_answers import rooms_of
from cosched.cluster.record import Record, State
from cosched.config.queue import RIGID
from cosched.core.cluster.coupling.engine_messages import JobRefused
from cosched.core.cluster.queue.queue_events import JobCancelled
from cosched.core.counting import counted
from cosched.core.errors import CoschedError


class Submitting:
    """The way of users' jobs into the queue of a domain, and out of it."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def submit(self, record: Record) -> Record:
        """Stores a job, or all tasks of an array, and lets them wait; returns the first one
        with its number. A job that its user sends again is the stored one, whatever has
        become of it. Raises CoschedError if the domain can never run it, or cannot at once
        if it must start at once."""
        stored = self._jobs.records.sent_before(record) or self._add(record)
        if stored.submission.at_once and stored.state.over and not stored.start:
            raise CoschedError(stored.reason)
        return stored

    def _add(self, record: Record) -> Record:
        counts = self._jobs.members.counts(record.submission)
        self._jobs.entries.check_needs(record, len(counts))
        self._jobs.members.half_counts(record.submission)  # whether its tasks fit
        if record.submission.malleable and self._jobs.settings.size == RIGID:
            raise CoschedError(
                "this domain keeps the sizes of jobs: submit it with a number of nodes, or "
                'write size = "malleable" into [queue] of domain.toml'
            )
        self._jobs.mates.check(record, self._jobs.settings.jobs_per_node)
        self._jobs.prerequisites.check(record)
        if record.submission.array:
            return self._jobs.batch_jobs.submit(record, len(counts))
        stored = self._jobs.records.add(record)
        self._jobs.mates.announce(stored)
        self._jobs.shared.forget_old()
        if stored.state is State.QUEUED:
            self._wait(stored, len(counts))
            if stored.submission.at_once:
                self._start_or_refuse(stored, len(counts))
        return stored

    def _wait(self, record: Record, size: int) -> None:
        """Adds a job to the queue. Raises CoschedError for a job that the queue refuses; it
        has ended then."""
        try:
            self._jobs.entries.add(record, size)
        except CoschedError as error:
            self._jobs.records.finish(record, State.CANCELLED, None, str(error))
            raise

    def _start_or_refuse(self, record: Record, size: int) -> None:
        """Ends a job that does not start now."""
        self._jobs.driver.decide()
        if record.state is State.QUEUED:
            needs = record.submission.minimum or size
            room = rooms_of(self._jobs.queue, self._jobs.members).line(record, needs)
            reason = f"cannot start at once: {room}"
            others = len(self._jobs.queue.waiting) - 1
            if others:
                reason += f", {counted(others, 'job waits', 'jobs wait')}"
            if self._jobs.driver.frozen:
                reason = "cannot start at once: the controller asks the nodes; try again"
            self._withdraw([record], reason)

    def cancel(self, number: int) -> None:
        """Ends a job, or takes it from the queue. A second time it changes nothing: the
        request is sent again if its answer is lost with a controller."""
        record = self._jobs.records.known(number)
        if record.state is State.CANCELLED:
            return
        record = self._jobs.records.get(number)
        if record.state in (State.HELD, State.QUEUED):
            self._withdraw([record], CANCELLED)
            return
        # Stored first: a controller that restarts must not let the job run again.
        self._jobs.records.save(record, reason=CANCELLED)
        if number in self._jobs.records.live:  # otherwise its nodes have to report it first
            self._jobs.cancel_start(self._jobs.starts.active[number])

    def _withdraw(self, records: Sequence[Record], reason: str) -> None:
        """Ends jobs that wait, in the queue or held."""
        if any(self._jobs.entries.is_unsized(record.number) for record in records):
            self._jobs.entries.add_unsized()
        known = [
            record.number
            for record in records
            if record.state is State.QUEUED or self._jobs.mates.has(record.number)
        ]
        self._jobs.records.finish_all(records, State.CANCELLED, reason)
        for number in known:
            self._jobs.driver.handle(JobCancelled(self._jobs.clock.now_ns(), number))

    def cancel_all(self, numbers: Sequence[int]) -> None:
        """Ends several jobs, as ``cancel``. Waiting jobs end together. Raises
        CoschedError if no job could be ended."""
        live = [self._jobs.records.live.get(number) for number in numbers]
        waiting = [
            record
            for record in live
            if record is not None and record.state in (State.HELD, State.QUEUED)
        ]
        self._withdraw(waiting, CANCELLED)
        ended = {record.number for record in waiting}
        first: CoschedError | None = None
        for number in numbers:
            if number in ended:
                continue
            try:
                self.cancel(number)
            except CoschedError as error:
                first = first or error
            else:
                ended.add(number)
        if first is not None and not ended:
            raise first

    async def expect_accord(self, record: Record) -> None:
        """Waits a moment for the domains of a new job's mates. Raises CoschedError if one
        refuses the group; the job is cancelled and its group forgotten then."""
        if self._jobs.pairs is None:
            return
        number = record.number
        reason = await self._jobs.pairs.objection(number)
        if reason is not None and record.state in (State.HELD, State.QUEUED):
            self._withdraw([record], reason)
            self._jobs.driver.handle(JobRefused(self._jobs.clock.now_ns(), number))
            raise CoschedError(f"job {number}: {reason}")
