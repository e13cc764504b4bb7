"""The jobs of one domain that belong to groups, and what they are doing."""

from __future__ import annotations

from dataclasses import dataclass

from cosched.core.cluster.coupling.messages import Group
from cosched.core.cluster.coupling.protocol import GroupName, MateState, MateStatus
from cosched.core.cluster.queue.messages import Job, JobId
from cosched.core.errors import CoschedError


@dataclass(slots=True)
class Member:
    """A job of a group, from its announcement to its end.

    yields: how often it yielded. pinned: another domain counts on its holding.
    own_hold: it held before that, of its own accord. promised_ns: when it has to start at
    the latest, because a mate did not wait for it. due_ns: when it may start, if known.
    """

    number: JobId
    group: Group
    state: MateState = MateState.UNSUBMITTED
    job: Job | None = None
    since_ns: int | None = None
    yields: int = 0
    pinned: bool = False
    own_hold: bool = False
    promised_ns: int | None = None
    due_ns: int | None = None

    def waits(self) -> bool:
        """In the queue, or beside it with its nodes."""
        return self.state in (MateState.QUEUING, MateState.HOLDING)


class Members:
    """Looked up by number and by group.

    waiting: those that queue or hold, in the order of their submissions. Most of a log's
    jobs are announced long before or have ended, and each pass looks at those that wait.
    """

    def __init__(self) -> None:
        self.waiting: dict[JobId, Member] = {}
        self._by_number: dict[JobId, Member] = {}
        self._by_group: dict[GroupName, Member] = {}

    def announce(self, number: JobId, group: Group) -> None:
        """Raises CoschedError if the group has a job here, or the job a group."""
        if number in self._by_number:
            raise CoschedError(f"job {number} belongs to a group already")
        if group.name in self._by_group:
            other = self._by_group[group.name].number
            raise CoschedError(
                f"job {number} is to join group '{group.name}', where job {other} is; "
                "a group has one job in each domain"
            )
        member = Member(number, group)
        self._by_number[number] = member
        self._by_group[group.name] = member

    def __getitem__(self, number: JobId) -> Member:
        return self._by_number[number]

    def submit(self, job: Job) -> None:
        """The job is in the queue."""
        member = self._by_number.get(job.number)
        if member is not None:
            member.job = job
            member.state = MateState.QUEUING
            self.waiting[job.number] = member

    def start(self, number: JobId, now_ns: int) -> None:
        """The job runs."""
        member = self.waiting.pop(number, None)
        if member is not None:
            member.state = MateState.RUNNING
            member.since_ns = now_ns
            member.pinned = member.own_hold = False
            member.promised_ns = member.due_ns = None

    def get(self, number: JobId) -> Member | None:
        return self._by_number.get(number)

    def of_group(self, name: GroupName) -> Member | None:
        return self._by_group.get(name)

    def status(self, number: JobId) -> MateStatus:
        member = self._by_number.get(number)
        if member is None:
            return MateStatus(MateState.UNKNOWN)
        return MateStatus(member.state, member.since_ns)

    def promised(self) -> bool:
        """Some job has to start by a certain time."""
        return any(member.promised_ns is not None for member in self.waiting.values())

    def forget(self, number: JobId) -> None:
        """The job has ended: to its mates it is unknown."""
        member = self._by_number.pop(number, None)
        if member is not None:
            del self._by_group[member.group.name]
