"""The process table of a node as the core keeps it: a record for each job, and who
competes with whom."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from cosched.core.node.groups import Fitting, groups
from cosched.core.node.messages import Cause, Job, Mode, Refusal, Task
from cosched.core.node.slices.adapting import REMEMBERED
from cosched.core.units import NS_PER_S

#: How long ago a submission still counts as what it is; see ``date``.
LAUNCH_NS = 10 * NS_PER_S


@dataclass(slots=True, eq=False)
class JobState:
    """One MPI job on this node: the paper's entry in the process table."""

    key: Job
    submitted_ns: int = 0  #: as ``date`` says
    tasks: dict[Task, frozenset[int]] = field(default_factory=dict)
    cpus: frozenset[int] = frozenset()
    mode: Mode = Mode.COSCHEDULED
    scheduled: bool = False
    contended: bool = False  #: another job of its group waits
    since_ns: int = 0  #: when it was last scheduled
    came_by: Cause = Cause.FIRST  #: why it was
    received_ns: int = 0  #: how long it has been scheduled, without the current time
    credit_ns: int = 0  #: the same, counted from where a newcomer starts
    epoch: int = 0
    awaits_gmet: bool = False  #: refused for GMET in this epoch
    switches: int = 0  #: times it was scheduled
    granted: int = 0
    refused: Counter[Refusal] = field(default_factory=Counter)
    whole: bool = True  #: ``received_ns`` is all the CPU time it has had
    awaits_switch: bool = False  #: refused in this epoch for a job that waits, or is raised

    @property
    def alone(self) -> bool:
        """Whether no other job may be scheduled on its CPUs together with it."""
        return self.mode is Mode.RAISED

    @property
    def precedence(self) -> tuple[int, Job]:
        """The order of submission, the same on all nodes: lesser ones come first."""
        return self.submitted_ns, self.key

    def ran_ns(self, now_ns: int) -> int:
        """How long it has been scheduled this time."""
        return now_ns - self.since_ns if self.scheduled else 0

    def used_ns(self, now_ns: int) -> int:
        """The CPU time that fairness compares."""
        return self.credit_ns + self.ran_ns(now_ns)

    def account(self, now_ns: int) -> None:
        """Books the time since ``since_ns`` and starts counting anew."""
        ran_ns = self.ran_ns(now_ns)
        self.received_ns += ran_ns
        self.credit_ns += ran_ns
        self.since_ns = now_ns


def date(submitted_ns: int, wall_ns: int) -> int:
    """The time of submission by which a job that registers at ``wall_ns`` is put in order.

    Nodes are to agree on it, though they hear of the job at different moments, and nobody
    is to come first for having waited in a queue, or for saying so: what is older than
    ``LAUNCH_NS`` counts as the beginning of the last whole one. An unknown time, or one
    ahead of this clock by more than that, counts as the beginning of the present one.
    """
    present_ns = wall_ns // LAUNCH_NS * LAUNCH_NS
    if not 0 < submitted_ns <= wall_ns + LAUNCH_NS:
        return present_ns
    return max(submitted_ns, present_ns - LAUNCH_NS)


def old_date(recorded_ns: int, began_ns: int, wall_ns: int) -> int:
    """The date that an earlier machine recorded for a job whose first task began at
    ``began_ns``, as far as ``date`` could have said so: the record is the user's to change.
    """
    return min(max(recorded_ns, began_ns - 2 * LAUNCH_NS), wall_ns + LAUNCH_NS)


class ProcessTable:
    """The jobs of a node, and the groups in which they compete."""

    def __init__(self) -> None:
        self.jobs: dict[Job, JobState] = {}
        self.groups: list[list[JobState]] = []  #: of those that take part, by precedence
        self.raised: list[JobState] = []
        self.fitting = Fitting()
        self.shares: tuple[tuple[Job, int], ...] = ()  #: each job's percentage, by key
        #: How long the jobs that ended last had been scheduled, the last one last.
        self.ended_ns: deque[int] = deque(maxlen=REMEMBERED)

    def regroup(self) -> None:
        """To be called when jobs, CPU sets or modes changed: groups follow from those."""
        self.fitting.forget()
        part = [job for job in self.jobs.values() if job.mode.takes_part]
        self.groups = groups(sorted(part, key=lambda job: job.precedence))
        for group in self.groups:
            group.sort(key=lambda job: job.precedence)
        self.raised = [job for job in self.jobs.values() if job.alone]

    def by_key(self) -> list[JobState]:
        """All jobs, in an order that does not depend on their history."""
        return sorted(self.jobs.values(), key=lambda job: job.key)

    def scheduled(self) -> list[JobState]:
        return [job for job in self.jobs.values() if job.scheduled]

    def group_of(self, job: JobState) -> list[JobState]:
        """Those it competes with, itself among them; only for a job that takes part."""
        return next(group for group in self.groups if job in group)

    def contended(self) -> list[list[JobState]]:
        """The groups in which somebody runs and somebody waits."""
        return [
            group
            for group in self.groups
            if any(job.scheduled for job in group)
            and not all(job.scheduled for job in group)
        ]

    def fits(self, jobs: Sequence[JobState]) -> bool:
        """Whether they can run side by side."""
        return self.fitting.fits(jobs)
