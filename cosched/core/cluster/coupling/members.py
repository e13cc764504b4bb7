"""Keeps the jobs of one domain that belong to groups, and their states."""

from __future__ import annotations

from dataclasses import dataclass

from cosched.core.cluster.coupling.messages import Group
from cosched.core.cluster.coupling.protocol import GroupName, MateState, MateStatus
from cosched.core.cluster.queue.messages import Job, JobId
from cosched.core.errors import CoschedError


@dataclass(slots=True)
class Member:
    """A job of a group, from its announcement to its end.

    yields: how often it yielded. pinned: it holds because another domain asked for that.
    own_hold: it held before any request. promised_ns: its latest start, because a mate
    started before it. due_ns: its earliest start, if known.
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
        """Returns whether the job queues or holds."""
        return self.state in (MateState.QUEUING, MateState.HOLDING)


class Members:
    """The members of one domain, by number and by group.

    waiting: the members that queue or hold, in the order of submission. Passes read only
    these: most jobs of a log are announced long before, or have ended.
    """

    def __init__(self) -> None:
        self.waiting: dict[JobId, Member] = {}
        self._by_number: dict[JobId, Member] = {}
        self._by_group: dict[GroupName, Member] = {}

    def announce(self, number: JobId, group: Group) -> None:
        """Adds a member. Raises CoschedError if the group or the job already has one."""
        if number in self._by_number:
            raise CoschedError(f"job {number} belongs to a group already")
        if group.name in self._by_group:
            other = self._by_group[group.name].number
            raise CoschedError(
                f"job {number} cannot join group '{group.name}': job {other} is in it; "
                "a group has one job in each domain"
            )
        member = Member(number, group)
        self._by_number[number] = member
        self._by_group[group.name] = member

    def __getitem__(self, number: JobId) -> Member:
        return self._by_number[number]

    def submit(self, job: Job) -> None:
        """Marks a submitted job as queuing."""
        member = self._by_number.get(job.number)
        if member is not None:
            member.job = job
            member.state = MateState.QUEUING
            self.waiting[job.number] = member

    def start(self, number: JobId, now_ns: int) -> None:
        """Marks a job as running."""
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
        """Returns whether a job has a promised latest start."""
        return any(member.promised_ns is not None for member in self.waiting.values())

    def forget(self, number: JobId) -> None:
        """Removes an ended job: for its mates it is unknown."""
        member = self._by_number.pop(number, None)
        if member is not None:
            del self._by_group[member.group.name]
