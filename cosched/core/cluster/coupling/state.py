"""Holds the state of one domain and its changes; makes no decisions.

Each change appends a command for the driver.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from cosched.core.cluster.coupling.members import Member, Members
from cosched.core.cluster.coupling.messages import Command, HoldJob, ReleaseJob
from cosched.core.cluster.coupling.protocol import DomainName, MateState
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.cluster.queue.messages import Job, JobId, StartJob
from cosched.core.cluster.queue.planner import NO_RULES, PassRules
from cosched.core.cluster.queue.scheduler import QueueScheduler
from cosched.core.errors import CoschedError


@dataclass(slots=True)
class Counts:
    """Counts how often each branch was taken."""

    asked: int = 0
    holds: int = 0
    yields: int = 0
    yields_by_held_cap: int = 0
    holds_by_yield_cap: int = 0
    not_due: int = 0
    releases: int = 0
    started_by_mate: int = 0
    tries: int = 0
    tries_refused: int = 0  #: too few free nodes, so no pass was made
    busy: int = 0  #: refused during a pass of this domain
    promises: int = 0
    promises_broken: int = 0


@dataclass(slots=True)
class DomainState:
    """The state of one domain. held: held nodes. commands: not handed out yet."""

    name: DomainName
    settings: CouplingSettings
    queue: QueueScheduler
    members: Members = field(default_factory=Members)
    counts: Counts = field(default_factory=Counts)
    commands: list[Command] = field(default_factory=list)
    now_ns: int = 0
    held: int = 0

    def start(self, job: Job) -> None:
        """Starts the job now."""
        nodes = self.queue.occupy(job, self.now_ns)
        self.members.start(job.number, self.now_ns)
        self.commands.append(StartJob(job, nodes))

    def hold(self, job: Job) -> None:
        """Gives the job its nodes without starting it."""
        nodes = self.queue.occupy(job, self.now_ns)
        self.held += job.size
        self.counts.holds += 1
        self.members[job.number].state = MateState.HOLDING
        self.commands.append(HoldJob(job, nodes))

    def release(self, member: Member) -> None:
        """Releases the nodes of a holding job; it waits in the queue again."""
        job = member.job
        if job is None:
            raise CoschedError(f"job {member.number} cannot release nodes: it has none")
        self.queue.restore(job)
        self.held -= job.size
        self.counts.releases += 1
        member.state = MateState.QUEUING
        member.own_hold = False
        self.commands.append(ReleaseJob(job))

    def start_held(self, mate: Member) -> bool:
        """Starts a holding job; returns False if it does not hold."""
        if mate.state is not MateState.HOLDING or mate.job is None:
            return False
        self.held -= mate.job.size
        nodes = self.queue.restart(mate.job, self.now_ns)
        self.counts.started_by_mate += 1
        self.members.start(mate.number, self.now_ns)
        self.commands.append(StartJob(mate.job, nodes))
        return True

    def start_asked(self, job: Job) -> None:
        """Starts a job because a mate's domain asked for it."""
        self.counts.started_by_mate += 1
        self.start(job)

    def rules(
        self,
        left_out: Collection[JobId] = (),
        last: Collection[JobId] = (),
    ) -> PassRules:
        """Returns the rules of a pass: promised jobs first, yielded jobs moved forward."""
        raised: dict[JobId, int] = {}
        promised: list[JobId] = []
        for member in self.members.waiting.values():
            if member.state is not MateState.QUEUING:
                continue
            if member.promised_ns is not None:
                promised.append(member.number)
            elif self.settings.raise_by and member.yields:
                raised[member.number] = member.yields * self.settings.raise_by
        if not (left_out or last or raised or promised):
            return NO_RULES
        return PassRules(promised, last, left_out, raised)
