"""Keeps the account of each job on a node: how it spent its time, and its requests.

The accounts follow from the steps of the machine, so live steps and a trace give the same
accounts. From its first task's registration to its last task's exit a job is always one of

    scheduled     it has its share of the CPUs, nearly all of it
    unscheduled   another job has the CPUs
    suspended     its owner stopped it
    released      its owner released it: it runs at the kernel's normal shares

The four times add up to its response time. None of them is a run time: for a job that is
time-shared, only the scheduled time comes near the time that it needs alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from cosched.core.node.job import JobState
from cosched.core.node.messages import (
    Cause,
    Command,
    Event,
    Job,
    MessageTrapped,
    Mode,
    PublishStatus,
    Refusal,
    RefuseRequest,
    ShutdownRequested,
)
from cosched.core.node.process_table import NodeSnapshot
from cosched.core.trace.task_tracker import TaskTracker
from cosched.core.units import NS_PER_S

#: How many intervals a job's account keeps one by one, the last ones.
INTERVALS_MAX = 512


class Standing(str, Enum):
    """The four states of a job; see above."""

    SCHEDULED = "scheduled"
    UNSCHEDULED = "unscheduled"
    SUSPENDED = "suspended"
    RELEASED = "released"


class Moment(NamedTuple):
    """One moment by the monotonic clock and by the wall clock."""

    now_ns: int  #: by the monotonic clock
    wall_ns: int  #: by the wall clock


class Interval(NamedTuple):
    """A job was scheduled from ``begin`` to ``end``, because of ``cause``."""

    begin: Moment  #: when the job was scheduled
    end: Moment  #: when it was no longer scheduled
    cause: Cause  #: why it was scheduled


@dataclass(slots=True, eq=False)
class Account:
    """The account of one job on one node."""

    job: Job  #: its key
    began: Moment  #: when its first task registered, or the trace began
    #: When the job was scheduled, the last ones; none is missing that began
    #: ``complete_from_ns`` or more after ``began``.
    intervals: deque[Interval] = field(default_factory=lambda: deque(maxlen=INTERVALS_MAX))
    standing: Standing = Standing.UNSCHEDULED  #: its state since ``since``
    since: Moment = field(init=False)  #: when its standing changed last
    cause: Cause = Cause.FIRST  #: why its standing changed last
    #: How long it was in each standing, up to ``since``.
    spent_ns: Counter[Standing] = field(default_factory=Counter)
    switches: int = 0  #: how often it was scheduled
    granted: int = 0  #: the number of its requests that were granted
    #: The number of its refused requests, by reason.
    refused: Counter[Refusal] = field(default_factory=Counter)
    complete_from_ns: int = 0  #: see ``intervals``

    def __post_init__(self) -> None:
        self.since = self.began

    def spent_s(self, standing: Standing) -> float:
        """Returns the booked seconds of a standing."""
        return self.spent_ns[standing] / NS_PER_S

    def stand(self, standing: Standing, moment: Moment, cause: Cause) -> None:
        """Books the time until ``moment`` and goes on in another standing."""
        self.spent_ns[self.standing] += moment.now_ns - self.since.now_ns
        if self.standing is Standing.SCHEDULED:
            if moment.now_ns > self.since.now_ns:
                self._keep(Interval(self.since, moment, self.cause))
        elif standing is Standing.SCHEDULED:
            self.switches += 1
        self.standing, self.since, self.cause = standing, moment, cause

    def _keep(self, interval: Interval) -> None:
        if len(self.intervals) == self.intervals.maxlen:
            self.complete_from_ns = self.intervals[0].end.now_ns - self.began.now_ns
        self.intervals.append(interval)

    def scheduled_since(self, since_wall_ns: int) -> list[tuple[int, int | None]]:
        """Returns when the job was scheduled since then, by the wall clock, oldest first.

        An interval that has not ended ends with None.
        """
        found: list[tuple[int, int | None]] = [
            (max(interval.begin.wall_ns, since_wall_ns), interval.end.wall_ns)
            for interval in self.intervals
            if interval.end.wall_ns > since_wall_ns
        ]
        if self.standing is Standing.SCHEDULED:
            found.append((max(self.since.wall_ns, since_wall_ns), None))
        return found


class Accounts:
    """The accounts of the jobs on a node.

    ``intervals_max`` is how many intervals each account keeps; None: all.
    """

    def __init__(self, intervals_max: int | None = INTERVALS_MAX) -> None:
        self.open: dict[Job, Account] = {}  #: the accounts of jobs that have not ended
        self._intervals_max = intervals_max
        self._tracker = TaskTracker({})
        self._last = Moment(0, 0)

    def resume(self, state: NodeSnapshot, moment: Moment) -> list[Account]:
        """Goes on with a machine that is in this state; returns the accounts that end.

        A daemon that starts again may know fewer jobs than the one before it.
        """
        jobs = {job.key: job for job in state.jobs}
        self._tracker = TaskTracker({key: job.members for key, job in jobs.items()})
        gone = sorted(self.open.keys() - jobs.keys())
        ended = [self._end(job, self._last) for job in gone]
        for key, job in jobs.items():
            standing, account = _standing_of(job), self._account(key, moment)
            if account.standing is not standing:
                if account.standing is Standing.SCHEDULED:
                    account.stand(Standing.UNSCHEDULED, self._last, job.came_by)
                account.stand(standing, moment, Cause.FIRST)
        self._last = moment
        return ended

    def take(self, event: Event, commands: Iterable[Command]) -> list[Account]:
        """Books one step of the machine; returns the accounts of the jobs that end."""
        moment = self._last = Moment(event.now_ns, event.wall_ns)
        refused = False
        for command in commands:
            if isinstance(command, PublishStatus) and command.cause is not Cause.SHUTDOWN:
                account = self._account(command.job, moment)
                account.stand(_standing(command), moment, command.cause)
            elif isinstance(command, RefuseRequest):
                refused = True
                if command.reason is not Refusal.UNKNOWN:
                    self._account(command.job, moment).refused[command.reason] += 1
        if isinstance(event, MessageTrapped) and not refused:
            self._account(event.job, moment).granted += 1
        ended = self._tracker.take(event)
        if isinstance(event, ShutdownRequested):
            return self.close(moment)
        return [] if ended is None else [self._end(ended, moment)]

    def close(self, moment: Moment | None = None) -> list[Account]:
        """Ends all accounts, at the last step if no moment is given."""
        return [self._end(job, moment or self._last) for job in list(self.open)]

    def _end(self, job: Job, moment: Moment) -> Account:
        account = self._account(job, moment)
        del self.open[job]
        account.stand(Standing.UNSCHEDULED, moment, account.cause)
        return account

    def _account(self, job: Job, moment: Moment) -> Account:
        account = self.open.get(job)
        if account is None:
            intervals: deque[Interval] = deque(maxlen=self._intervals_max)
            account = self.open[job] = Account(job, moment, intervals)
        return account


def _standing(command: PublishStatus) -> Standing:
    if command.cause is Cause.RELEASED:
        return Standing.RELEASED
    if command.cause is Cause.SUSPENDED:
        return Standing.SUSPENDED
    return Standing.SCHEDULED if command.scheduled else Standing.UNSCHEDULED


def _standing_of(job: JobState) -> Standing:
    if job.mode is Mode.RELEASED:
        return Standing.RELEASED
    if job.mode is Mode.SUSPENDED:
        return Standing.SUSPENDED
    return Standing.SCHEDULED if job.scheduled else Standing.UNSCHEDULED
