"""Carries out the suspensions of live jobs.

All nodes of a job stop its tasks, or let them run again, and answer. Each step is stored
before it has an effect, so a controller that restarts asks again: nodes answer twice. If
one node cannot stop its tasks, all nodes let theirs run again. Then the suspension is
refused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cosched.cluster.engines.native.basics import Basics
from cosched.cluster.engines.native.starts.running import Starts
from cosched.cluster.engines.native.starts.start import ActiveStart
from cosched.cluster.job_suspension import JobSuspension
from cosched.cluster.record import Record
from cosched.cluster.suspend_messages import (
    ContinueTasks,
    SuspendTasks,
    TasksContinued,
    TasksSuspended,
)
from cosched.core.bounds import NATURAL_MOST
from cosched.core.cluster.queue.queue_commands import ContinueJob, SuspendJob
from cosched.core.cluster.queue.queue_events import (
    JobContinued,
    JobRecovered,
    JobSuspended,
    SuspendRefused,
)
from cosched.core.decoding import parse_integer
from cosched.core.errors import CoschedError, must_succeed
from cosched.core.units import NS_PER_S

#: The messages of nodes about suspensions.
OF_SUSPENSIONS = (TasksSuspended, TasksContinued)


class Suspensions:
    """The suspended live jobs. suspended: how many suspensions began since the controller
    started; refused: how many did not."""

    def __init__(self, basics: Basics, starts: Starts) -> None:
        self.suspended = 0
        self.refused = 0
        self._records = basics.records
        self._clock = basics.clock
        self._send = basics.send
        self._log = basics.log
        self._report = basics.report
        self._starts = starts
        self._awaited: dict[int, set[str]] = {}  # nodes that have not answered, by job

    # --- orders of the queue --------------------------------------------------------------

    def order(self, command: SuspendJob) -> None:
        """Has the tasks of a job stopped. Refuses it for a job that has not begun."""
        start = self._starts.active[command.number]
        if not start.went or start.is_given_up:
            self._report(SuspendRefused(self._clock.now_ns(), command.number))
            return
        stored = _of(start.record)
        self._save(start, times=stored.times + 1, for_job=command.for_job)
        self._ask(start)

    def order_on(self, command: ContinueJob) -> None:
        """Has the tasks of a suspended job run again."""
        start = self._starts.active[command.number]
        self._save(start, continues=True)
        self._ask(start)

    def _save(self, start: ActiveStart, **changes: Any) -> None:
        stored = msgspec.structs.replace(_of(start.record), **changes)
        self._records.save(start.record, suspension=stored)

    def _ask(self, start: ActiveStart) -> None:
        record = start.record
        stored = _of(record)
        self._awaited[record.number] = set(record.nodes)
        of_job = (record.number, record.start, stored.times)
        order: ContinueTasks | SuspendTasks = ContinueTasks(*of_job)
        if not stored.continues:
            order = SuspendTasks(*of_job, self._memory_bytes(record, stored.for_job))
        for name in record.nodes:
            self._send(name, order)

    def _memory_bytes(self, record: Record, for_job: int | None) -> int:
        """Returns the memory that two jobs need together on a node; 0: not known."""
        other = None if for_job is None else self._records.live.get(for_job)
        needs = [_memory_of(each) for each in (record, other) if each is not None]
        return sum(needs) if len(needs) == 2 and all(needs) else 0

    # --- messages of nodes ----------------------------------------------------------------

    def take(self, sender: str, message: TasksSuspended | TasksContinued) -> None:
        """Handles the answer of a node; ignores one to an order that does not hold."""
        start = self._starts.find(sender, message)
        if start is None or start.waits_for is not None:
            return
        stored, awaited = start.record.suspension, self._awaited.get(message.job, set())
        if stored is None or stored.for_job is None or stored.times != message.times:
            return
        if sender not in awaited or isinstance(message, TasksContinued) != stored.continues:
            return
        with must_succeed(f"the suspension of job {message.job}"):
            if isinstance(message, TasksSuspended) and message.problem:
                self._save(start, continues=True, refused=f"{sender}: {message.problem}")
                self._ask(start)
                return
            awaited.discard(sender)
            if not awaited:
                self._all_answered(start, stored)

    def _all_answered(self, start: ActiveStart, stored: JobSuspension) -> None:
        number, now_ns = start.record.number, self._clock.now_ns()
        if not stored.continues:
            self._save(start, stopped_ns=now_ns, done=stored.done + 1)
            self.suspended += 1
            self._log(f"job {number}: is suspended for job {stored.for_job}")
            self._report(JobSuspended(now_ns, number))
            return
        self._records.save(start.record, suspension=stored.over(now_ns))
        if stored.refused:
            self.refused += 1
            self._log(f"job {number}: is not suspended: {stored.refused}")
            self._report(SuspendRefused(now_ns, number))
            return
        away_s = (stored.suspended_ns(now_ns) - stored.total_ns) / NS_PER_S
        self._log(f"job {number}: continues after {away_s:.1f} s")
        self._report(JobContinued(now_ns, number))

    # --- restarts and ends ----------------------------------------------------------------

    def completed(self, event: JobRecovered, record: Record) -> JobRecovered:
        """Returns the event about a restored job, with what is stored about it here."""
        stored = record.suspension
        if stored is None:
            return event
        return msgspec.structs.replace(
            event, suspension=stored.for_queue, lender=stored.lender
        )

    def recover(self, start: ActiveStart) -> None:
        """Goes on with the order of a job that was found after a restart."""
        stored = start.record.suspension
        if stored is None or stored.for_job is None:
            return
        if stored.continues or not stored.is_suspended:
            self._ask(start)

    def over(self, record: Record) -> None:
        """Ends the suspension of a job whose start is over."""
        self._awaited.pop(record.number, None)
        stored = record.suspension
        if stored is not None and stored.for_job is not None:
            self._records.save(record, suspension=stored.over(self._clock.now_ns()))


def _of(record: Record) -> JobSuspension:
    return record.suspension or JobSuspension()


def _memory_of(record: Record) -> int:
    """Returns the memory that a job needs on each of its nodes; 0: not known."""
    text = record.submission.environ.get("COSCHED_MEMORY", "0")
    try:
        return parse_integer(text, "COSCHED_MEMORY", 0, NATURAL_MOST // 2)
    except CoschedError:  # its tasks report it, and ignore it, too
        return 0
