"""Keeps the records of the jobs that have not ended, and the requests that wait for a job.

Each change of a record is stored at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from cosched.cluster.coupling.clock import DomainClock
from cosched.cluster.engines.native.run_times import RunTimes
from cosched.cluster.job_size import PastChange
from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.cluster.submission import Submission
from cosched.core.arrays import indices_text, parse_jobs
from cosched.core.errors import CoschedError

#: The longest reason of an end, in characters.
REASON_LENGTH = 2000
#: The status of a job of which no task has ended.
_NO_STATUS = 128 + 15
#: The most characters of several numbers in a line.
_NUMBERS_SHOWN = 200
#: A condition of a job, and the request that waits for it.
_Wait = tuple[Callable[[Record], bool], "asyncio.Future[Record]"]


class Records:
    """The jobs of a domain. live: jobs that have not ended, by number. unresolved: jobs
    that had nodes before a restart, until it is known what they do.

    log: takes one line about each end. on_end: gets each job whose end is stored.
    """

    def __init__(
        self,
        store: JobStore,
        clock: DomainClock,
        log: Callable[[str], None],
        on_end: Callable[[Record], None],
    ) -> None:
        self.live: dict[int, Record] = {}
        self.unresolved: dict[int, Record] = {}
        self._on_end = on_end
        self._store = store
        self._clock = clock
        self._log = log
        self._waits: dict[int, list[_Wait]] = {}  # by the job's number
        #: How long like jobs ran.
        self.run_times = RunTimes(store)

    def sent_before(self, record: Record) -> Record | None:
        """Returns the stored job with the token of this one, or the first task of its
        array; None if it is new. Raises CoschedError for a token of another user."""
        number = self._store.number_of(record.submission.token, record.uid)
        return None if number is None else self.known(number)

    def add(self, record: Record) -> Record:
        """Stores a new job; returns it with its number."""
        stored = self._store.find(self._store.add(record.submission.token, record))
        assert stored is not None
        self.live[stored.number] = stored
        return stored

    def add_array(self, record: Record, tasks: Sequence[int]) -> list[Record]:
        """Stores a new job for each index of an array; returns them with their numbers."""
        first = self._store.add_array(record.submission.token, record, tasks)
        found = self._store.tasks_of(first)
        self.live.update((each.number, each) for each in found)
        return found

    def restore(self, record: Record) -> None:
        """Restores a stored job that has not ended."""
        self.unresolved.pop(record.number, None)
        self.live[record.number] = record
        self._answer_waits(record)

    def get(self, number: int) -> Record:
        """Returns a job that has not ended. Raises CoschedError for another."""
        record = self.known(number)
        if record.state.over:
            raise CoschedError(f"job {number}: has ended ({record.state.value})")
        return record

    def known(self, number: int) -> Record:
        """Returns a job, ended or not. Raises CoschedError if there is none."""
        record = self.find(number)
        if record is None:
            raise CoschedError(f"job {number}: there is no such job")
        return record

    def find(self, number: int) -> Record | None:
        """Returns a job, ended or not; None if there is none."""
        kept = self.live.get(number) or self.unresolved.get(number)
        return kept or self._store.find(number)

    async def wait(self, number: int) -> Record:
        """Returns a job once it has ended."""
        return await self._until(number, _has_ended)

    async def wait_any(self, numbers: Collection[int], within_s: float) -> list[Record]:
        """Returns the ended jobs among these, once there is one. When the time is over, the
        list is empty."""
        if over := self._over(numbers):
            return over
        future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        wait = _has_ended, future
        for number in numbers:
            self._waits.setdefault(number, []).append(wait)
        try:
            await asyncio.wait({future}, timeout=within_s)
        finally:
            future.cancel()
            for number in numbers:
                self._forget_wait(number, wait)
        return self._over(numbers)

    def _over(self, numbers: Collection[int]) -> list[Record]:
        return [record for record in map(self.known, numbers) if record.state.over]

    async def wait_running(self, number: int) -> Record:
        """Returns a job once it runs or has ended."""
        return await self._until(
            number, lambda record: record.state.over or record.state is State.RUNNING
        )

    async def wait_over(self, number: int, start: int) -> Record:
        """Returns a job once this start of it is over."""
        return await self._until(number, lambda record: _is_over(record, start))

    async def wait_away(self, number: int, start: int, nodes: frozenset[str]) -> Record:
        """Returns a job once this start of it has no part on these nodes any more."""
        return await self._until(
            number,
            lambda record: _is_over(record, start) or nodes.isdisjoint(record.admitted),
        )

    async def _until(self, number: int, is_met: Callable[[Record], bool]) -> Record:
        record = self.known(number)
        if is_met(record):
            return record
        future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        wait = is_met, future
        self._waits.setdefault(number, []).append(wait)
        try:
            return await future
        finally:
            self._forget_wait(number, wait)

    def _forget_wait(self, number: int, wait: _Wait) -> None:
        self._waits[number].remove(wait)
        if not self._waits[number]:
            del self._waits[number]

    def _answer_waits(self, record: Record) -> None:
        """Answers the requests that waited for the state that this job has now."""
        for is_met, future in self._waits.get(record.number, ()):
            if not future.done() and is_met(record):
                future.set_result(record)

    def save(self, record: Record, **changes: Any) -> None:
        """Stores changed fields of a record, and then changes them. Raises CoschedError if
        they cannot be stored; nothing has changed then."""
        self._store.save(replace(record, **changes))
        for name, value in changes.items():
            setattr(record, name, value)
        self._answer_waits(record)

    def save_all(self, records: Sequence[Record], **changes: Any) -> None:
        """Stores the same changed fields of several records at once, as ``save``."""
        self._store.save_all([replace(record, **changes) for record in records])
        for record in records:
            for name, value in changes.items():
                setattr(record, name, value)
            self._answer_waits(record)

    def rebound(self, record: Record, submission: Submission) -> None:
        """Stores other bounds of a job, and then changes them."""
        self._store.save_submission(record.number, submission)
        record.submission = submission

    def save_change(self, record: Record, change: PastChange) -> None:
        """Stores a change of a job's size that has ended, before its record changes."""
        self._store.save_change(record, change)
        self._log(f"job {record.number}: {change.text}")

    def forget_ended(self, before_ns: int) -> int:
        """Removes jobs that ended before a time, but none for which a job waits; returns
        how many."""
        named: set[int] = set()
        for record in self.live.values():
            job = record.submission
            for text in filter(None, (job.after, job.after_ok)):
                named.update(ref.number for ref in parse_jobs(text, ""))
        return self._store.forget_ended(before_ns, named)

    def finish(
        self,
        record: Record,
        state: State,
        status: int | None,
        reason: str,
        ended_ns: int | None = None,
    ) -> None:
        """Stores the end of a job. status: None if no task of it has ended. ended_ns: when
        a node saw its end, as while this controller was away; None: now."""
        status = _NO_STATUS if status is None else status
        now_ns = self._clock.now_ns()
        if ended_ns is None:
            ended_ns = now_ns
        # The clock of the node may differ from this one.
        ended_ns = max(min(ended_ns, now_ns), record.started_ns or record.submitted_ns)
        self._finish([record], state, status, reason, ended_ns)

    def finish_all(self, records: Sequence[Record], state: State, reason: str) -> None:
        """Stores the end of several jobs at once of which no task has begun."""
        self._finish(records, state, _NO_STATUS, reason, self._clock.now_ns())

    def _finish(
        self,
        records: Sequence[Record],
        state: State,
        status: int,
        reason: str,
        ended_ns: int,
    ) -> None:
        reason = _one_line(reason)
        self.save_all(records, state=state, status=status, reason=reason, ended_ns=ended_ns)
        for record in records:
            self.run_times.add(record)
            del self.live[record.number]
        text = f"{state.value}{': ' + reason if reason else ''}"
        if len(records) == 1:
            self._log(f"job {records[0].number}: {text}")
        elif records:
            numbers = indices_text(sorted(record.number for record in records))
            self._log(f"jobs {numbers[:_NUMBERS_SHOWN]}: {text}")
        for record in records:
            self._on_end(record)


def _has_ended(record: Record) -> bool:
    return record.state.over


def _is_over(record: Record, start: int) -> bool:
    """Returns whether a start of a job is over. One that is not made yet is not."""
    if record.state.over or record.start > start:
        return True
    there = record.state in (State.STARTING, State.RUNNING)
    return record.start == start and not there


def _one_line(reason: str) -> str:
    """Returns what a node reported, fit for a log: it may have come from a user."""
    line = " ".join(reason.split())
    shown = "".join(each if each.isprintable() else "?" for each in line)
    return shown if len(shown) <= REASON_LENGTH else f"{shown[:REASON_LENGTH]}..."
