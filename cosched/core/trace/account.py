"""The account of each job on a node: how its time there was spent, and what became of its
requests. Told from the steps of the machine, so that a trace gives the same account.

From its first task's registration to its last task's end a job is at each moment one of

    scheduled     it has its share of the CPUs: nearly all of it
    unscheduled   it has 1%, or sleeps: another job has the CPUs
    suspended     its owner stopped it
    released      its owner took it out: it runs at the kernel's normal shares

and the four times add up to its response time. None of them is a run time: of a job that is
time-shared only the scheduled time says what it might have taken alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from cosched.core.node.messages import (
    Cause,
    Command,
    Event,
    Job,
    MessageTrapped,
    PublishStatus,
    Refusal,
    RefuseRequest,
)
from cosched.core.units import NS_PER_S

#: Times scheduled that are remembered one by one, the last ones, for each job.
INTERVALS_MAX = 512


class Standing(str, Enum):
    """What a job is at a moment; see above."""

    SCHEDULED = "scheduled"
    UNSCHEDULED = "unscheduled"
    SUSPENDED = "suspended"
    RELEASED = "released"


@dataclass(slots=True, eq=False)
class Account:
    """One job on one node.

    intervals_ns: when it was scheduled, the last ones, as (start, end) from
        ``began_wall_ns`` on; nothing is missing after ``complete_from_ns``.
    """

    job: Job
    began_ns: int
    began_wall_ns: int
    standing: Standing = Standing.UNSCHEDULED
    since_ns: int = 0
    spent_ns: Counter[Standing] = field(default_factory=Counter)
    switches: int = 0
    granted: int = 0
    refused: Counter[Refusal] = field(default_factory=Counter)
    intervals_ns: deque[tuple[int, int]] = field(
        default_factory=lambda: deque(maxlen=INTERVALS_MAX)
    )
    complete_from_ns: int = 0

    def spent_s(self, standing: Standing) -> float:
        """Seconds that are booked for a standing."""
        return self.spent_ns[standing] / NS_PER_S

    def stand(self, standing: Standing, now_ns: int) -> None:
        """Books the time until now and goes on in another standing."""
        self.spent_ns[self.standing] += now_ns - self.since_ns
        if self.standing is Standing.SCHEDULED and now_ns > self.since_ns:
            if len(self.intervals_ns) == INTERVALS_MAX:
                self.complete_from_ns = self.intervals_ns[0][1]
            start, end = self.since_ns - self.began_ns, now_ns - self.began_ns
            self.intervals_ns.append((start, end))
        if standing is Standing.SCHEDULED and self.standing is not standing:
            self.switches += 1
        self.standing, self.since_ns = standing, now_ns


class Accounts:
    """Those of all jobs on a node that have not ended."""

    def __init__(self) -> None:
        self._open: dict[Job, Account] = {}

    def take(self, event: Event, commands: Iterable[Command]) -> None:
        """Books one step of the machine."""
        refused = False
        for command in commands:
            if isinstance(command, PublishStatus) and command.cause is not Cause.SHUTDOWN:
                self._account(command.job, event).stand(_standing(command), event.now_ns)
            elif isinstance(command, RefuseRequest):
                refused = True
                if command.reason is not Refusal.UNKNOWN:
                    self._account(command.job, event).refused[command.reason] += 1
        if isinstance(event, MessageTrapped) and not refused:
            self._account(event.job, event).granted += 1

    def of(self, job: Job) -> Account:
        """Returns the account of a job on the node."""
        return self._open[job]

    def close(self, job: Job, now_ns: int, now_wall_ns: int) -> Account:
        """The job's account, booked until now and forgotten here."""
        account = self._open.pop(job, None)
        if account is None:
            account = Account(job, now_ns, now_wall_ns, since_ns=now_ns)
        account.stand(Standing.UNSCHEDULED, now_ns)
        return account

    def _account(self, job: Job, event: Event) -> Account:
        account = self._open.get(job)
        if account is None:
            account = self._open[job] = Account(
                job, event.now_ns, event.wall_ns, since_ns=event.now_ns
            )
        return account


def _standing(command: PublishStatus) -> Standing:
    if command.cause is Cause.RELEASED:
        return Standing.RELEASED
    if command.cause is Cause.SUSPENDED:
        return Standing.SUSPENDED
    return Standing.SCHEDULED if command.scheduled else Standing.UNSCHEDULED
