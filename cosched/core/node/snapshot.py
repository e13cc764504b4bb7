"""The whole state of a node's machine as plain values, exact: a machine that is restored
from a snapshot answers every later event as the one that it was taken from.

A trace that begins in the middle of a daemon's life starts with one. Caches are left out:
they are made anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields

from cosched.core.node.branches import Branch
from cosched.core.node.messages import Cause, Job, Mode, OrderTimer, Refusal, Task
from cosched.core.node.settings import Settings
from cosched.core.node.table import JobState


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """One entry of the process table; see ``process_table.JobState`` for the fields."""

    key: Job
    submitted_ns: int
    tasks: dict[Task, frozenset[int]]
    cpus: frozenset[int]
    mode: Mode
    scheduled: bool
    contended: bool
    since_ns: int
    came_by: Cause
    received_ns: int
    credit_ns: int
    epoch: int
    awaits_gmet: bool
    switches: int
    granted: int
    refused: dict[Refusal, int]
    whole: bool = True
    awaits_switch: bool = False

    @classmethod
    def of(cls, job: JobState) -> JobSnapshot:
        """A copy that later events do not change."""
        values = {f.name: getattr(job, f.name) for f in fields(cls)}
        return cls(**{**values, "tasks": dict(job.tasks), "refused": dict(job.refused)})

    def restored(self) -> JobState:
        """An entry of its own with these values."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        tasks, refused = dict(self.tasks), Counter(self.refused)
        return JobState(**{**values, "tasks": tasks, "refused": refused})


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """What a ``NodeScheduler`` knows. ``jobs`` are in the order in which they came."""

    settings: Settings
    jobs: tuple[JobSnapshot, ...] = ()
    shares: tuple[tuple[Job, int], ...] = ()
    orders: OrderTimer | None = None
    alarm_ns: int | None = None
    counters: dict[Branch, int] = field(default_factory=dict)
    ended_ns: tuple[int, ...] = ()
