"""Decides about several jobs at once: arrays, held jobs, and jobs that wait for others.

A change of all tasks of an array is stored in one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cosched.cluster.coupling.driver import Driver
from cosched.cluster.engines.native.basics import Basics
from cosched.cluster.engines.native.job_mates import JobMates
from cosched.cluster.engines.native.prerequisites import not_met
from cosched.cluster.engines.native.queueing import Queueing
from cosched.cluster.record import Record, State
from cosched.cluster.submission import LIVE_MOST
from cosched.core.arrays import parse_array
from cosched.core.cluster.queue.queue_commands import DropJobs, LetIn
from cosched.core.cluster.queue.queue_events import JobCancelled
from cosched.core.errors import CoschedError


class BatchJobs:
    """The arrays of a domain, and the jobs that users hold."""

    def __init__(
        self, basics: Basics, entries: Queueing, mates: JobMates, driver: Driver
    ) -> None:
        self._members = basics.members
        self._records = basics.records
        self._clock = basics.clock
        self._entries = entries
        self._mates = mates
        self._driver = driver

    def submit(self, record: Record, size: int) -> Record:
        """Stores all tasks of an array and lets them wait; returns the first one. size: the
        nodes of each. Raises CoschedError if the queue takes no such job."""
        tasks = parse_array(record.submission.array).indices
        live = sum(each.uid == record.uid for each in self._records.live.values())
        if live + len(tasks) > LIVE_MOST:
            raise CoschedError(
                f"an array of {len(tasks)} tasks: you have {live} jobs in this domain, and "
                f"at most {LIVE_MOST} may be there"
            )
        stored = self._records.add_array(record, tasks)
        if record.state is State.QUEUED:
            try:
                for task in stored:
                    self._entries.add(task, size)
            except CoschedError as error:  # the queue takes all tasks or none
                self._records.finish_all(stored, State.CANCELLED, str(error))
                raise
        return stored[0]

    def hold(self, numbers: Sequence[int]) -> None:
        """Keeps waiting jobs from starting. Raises CoschedError if none of them waits."""
        waiting = self._possible(numbers, self._check_hold)
        records = [record for record in waiting if record.state is State.QUEUED]
        self._records.save_all(records, state=State.HELD, let_in_ns=None)
        for record in records:
            self._driver.handle(JobCancelled(self._clock.now_ns(), record.number))

    def _check_hold(self, record: Record) -> None:
        number = record.number
        if record.state not in (State.HELD, State.QUEUED):
            raise CoschedError(f"job {number}: has started; only a waiting job can be held")
        if record.state is State.QUEUED and self._mates.has(number):
            raise CoschedError(
                f"job {number}: has mates, which would start without it; cancel it, or "
                "submit it with --hold"
            )

    def unhold(self, numbers: Sequence[int]) -> None:
        """Returns held jobs to the queue. Raises CoschedError if all have ended, or for one
        that can never start; that one has ended then."""
        known = self._possible(numbers, lambda record: None)
        records = [record for record in known if record.state is State.HELD]
        sizes = [len(self._members.counts(record.submission)) for record in records]
        self._records.save_all(records, state=State.QUEUED)
        first: CoschedError | None = None
        for record, size in zip(records, sizes, strict=True):
            try:
                self._entries.add(record, size)
            except CoschedError as error:
                self._records.finish(record, State.CANCELLED, None, str(error))
                first = first or error
        if first is not None:
            raise first

    def _possible(
        self, numbers: Sequence[int], check: Callable[[Record], None]
    ) -> list[Record]:
        """Returns the jobs that have not ended and that a check accepts. Raises
        CoschedError with the first reason if there are none."""
        found: list[Record] = []
        first: CoschedError | None = None
        for number in numbers:
            try:
                record = self._records.get(number)
                check(record)
                found.append(record)
            except CoschedError as error:
                first = first or error
        if first is not None and not found:
            raise first
        return found

    def let_in(self, command: LetIn) -> None:
        """Stores that jobs are in the queue which were kept back."""
        records = [self._records.live[number] for number in command.numbers]
        self._records.save_all(records, let_in_ns=self._clock.now_ns())

    def drop(self, command: DropJobs) -> None:
        """Ends the jobs that waited for the success of another one."""
        because = self._records.known(command.because)
        reason = not_met(because.label, because.state)
        records = [self._records.live[number] for number in command.numbers]
        self._records.finish_all(records, State.CANCELLED, reason)
