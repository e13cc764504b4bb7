"""Holds the process table of a node: its jobs, their groups, and the policy in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from cosched.core.node.groups import (
    IDLE_SHARES,
    PAPER_SHARES,
    Group,
    connected,
    fits,
    share_percents,
)
from cosched.core.node.job import JobState
from cosched.core.node.knowledge import Ended, Knowledge
from cosched.core.node.messages import Branch, Event, Job, OrderTimer
from cosched.core.node.prospect import Prospect
from cosched.core.node.settings import Order, Settings
from cosched.core.node.slices.policy import ChoosePolicy, choose_policy

#: How many answers of ``fits`` are remembered; many jobs side by side make many sets.
FITS_MAX = 4096


class Share(NamedTuple):
    """The percentage that a job has of each of these CPUs."""

    job: Job  #: its key
    percent: int  #: its part of each of the CPUs, in percent
    cpus: frozenset[int]  #: the CPUs' numbers


class NodeSnapshot(Struct, frozen=True):
    """The whole state of a node's machine as plain values.

    A machine that is restored from it decides like the machine that it was taken from. A
    trace that begins in the middle of a daemon's life starts with one. Caches are left out.
    """

    settings: Settings  #: the settings in use
    jobs: tuple[JobState, ...] = ()  #: in the order of their arrival
    shares: tuple[Share, ...] = ()  #: the share of each job on its CPUs
    #: The last order to the timer daemon; None: it has had none.
    orders: OrderTimer | None = None
    #: When the GMET alarm rings, by the monotonic clock; None: it is not set.
    alarm_ns: int | None = None
    #: How often the machine took each branch.
    counters: dict[Branch, int] = field(default_factory=dict)
    ended: tuple[Ended, ...] = ()  #: the jobs that ended last, oldest first
    #: By user: the time of starts without a task; see ``knowledge``.
    bare_starts_ns: dict[int, int] = field(default_factory=dict)
    #: When the rests of jobs end, by the monotonic clock; None: no job rests.
    rests_until_ns: int | None = None


class ProcessTable:
    """The jobs of a node, and the groups in which they compete."""

    def __init__(self, settings: Settings, choose: ChoosePolicy = choose_policy) -> None:
        self.settings = settings
        self._choose = choose
        self.jobs: dict[Job, JobState] = {}
        self.groups: list[Group] = []  #: the groups of the jobs that take part
        self.shares: tuple[Share, ...] = ()  #: the shares that were set last, by key
        self.knowledge = Knowledge()
        self.rests_until_ns: int | None = None  #: as in ``NodeSnapshot``
        self.policy = choose(settings, self.knowledge)
        self._group_of: dict[Job, Group] = {}
        self._raised: list[JobState] = []
        self._fits: dict[frozenset[Job], bool] = {}  # answers of ``fits``, by the jobs

    def change_settings(self, settings: Settings) -> None:
        """Takes over these settings and their slice policy."""
        self.settings = settings
        self.policy = self._choose(settings, self.knowledge)

    def tasks_changed(self) -> None:
        """Must be called when a job gets or loses a task."""
        self._fits.clear()

    def regroup(self) -> None:
        """Must be called when jobs, CPU sets or modes change: the groups depend on them."""
        self._fits.clear()
        part = [job for job in self.jobs.values() if job.mode.takes_part]
        part.sort(key=lambda job: job.precedence)
        self.groups = [Group(jobs) for jobs in connected(part)]
        self._group_of = {job.key: group for group in self.groups for job in group.jobs}
        self._raised = [job for job in part if job.alone]

    def share_needs(self) -> None:
        """Lets jobs of unknown need take over that of a like job on this node."""
        known = {job.likeness: job.need for job in self.jobs.values() if job.need}
        for job in self.jobs.values():
            if job.expectation.kind:
                job.need = job.need or known.get(job.likeness, 0)

    def by_key(self) -> list[JobState]:
        """All jobs, in an order that does not depend on the past."""
        return sorted(self.jobs.values(), key=lambda job: job.key)

    def scheduled(self) -> list[JobState]:
        return [job for job in self.jobs.values() if job.scheduled]

    def contended(self) -> list[Group]:
        """The groups in which a job waits while another one is scheduled."""
        return [group for group in self.groups if group.contended]

    def group_of(self, job: JobState) -> Group:
        """The jobs that it competes with, and itself. The job must take part."""
        return self._group_of[job.key]

    def is_barred(self, job: JobState) -> bool:
        """Whether a raised job has one of its CPUs alone; raised jobs take turns."""
        return not job.alone and any(
            not job.cpus.isdisjoint(raised.cpus) for raised in self._raised
        )

    def order(self, event: Event) -> list[JobState]:
        """All jobs that take part, in the policy's order when turns end; raised first."""
        return self._raised_first(
            [self.policy.order(group, event) for group in self.groups]
        )

    def order_now(self, now_ns: int) -> list[JobState]:
        """The same for CPUs that are free now, while turns are on."""
        return self._raised_first(
            [self.policy.order_now(group, now_ns) for group in self.groups]
        )

    def prospects(self, now_ns: int) -> dict[Job, Prospect]:
        """Why each job has its place in the order, without raised jobs; empty if jobs take
        turns."""
        return {
            key: prospect
            for group in self.groups
            for key, prospect in self.policy.prospects(group, now_ns).items()
            if not self.jobs[key].alone
        }

    def _raised_first(self, orders: Sequence[Sequence[JobState]]) -> list[JobState]:
        jobs = [job for order in orders for job in order]
        if self._raised:
            jobs.sort(key=lambda job: not job.alone)
        return jobs

    def fits(self, jobs: Sequence[JobState]) -> bool:
        """Whether these jobs can run side by side. A switch asks about few sets, often."""
        keys = frozenset([job.key for job in jobs])
        if keys not in self._fits:
            if len(self._fits) >= FITS_MAX:
                self._fits.clear()
            self._fits[keys] = fits(jobs)
        return self._fits[keys]

    def fill(self, keep: Sequence[JobState], order: Sequence[JobState]) -> list[JobState]:
        """``keep`` and then, in this order, each job that fits beside those before it."""
        chosen = list(keep)
        kept = {job.key for job in keep}
        for job in order:
            if job.key not in kept and self.fits([*chosen, job]):
                chosen.append(job)
        return chosen

    def present_shares(self) -> tuple[Share, ...]:
        """The shares that the scheduled jobs and the groups call for, by key."""
        paper = self.settings.order is Order.PAPER
        percents = share_percents(self.groups, PAPER_SHARES if paper else IDLE_SHARES)
        return tuple(Share(k, p, self.jobs[k].cpus) for k, p in percents.items())
