"""Finds which resource limited a job, and checks the label that its user gave.

Section 3.1 of Weinberg and Snavely lets "more advanced scenarios" verify the category. The
time of a job's tasks while it was scheduled has four parts:

    messages   they waited in MPI
    files      they waited outside of MPI, and bytes went to or from a disk
    idle       they waited outside of MPI for something else
    computing  the rest: they had a CPU, or wanted one

The part that is at least ``MOST_PERCENT`` of the time limited the job. A job that computes
may wait for memory meanwhile, and no counter shows that. Its speed beside other jobs does:
beside one that memory limits it is slower than beside others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from cosched.core.symbiosis.resources import Limits, Resource
from cosched.core.units import NS_PER_S

#: A part of the time from which on it limits the job, in percent.
MOST_PERCENT = 50
#: A job that is slower by this factor beside one that memory limits needs memory, too.
SLOWED = 1.05
#: A job whose tasks spent less time than that is not judged, in seconds.
LEAST_S = 1.0


class Spending(Struct, frozen=True):
    """How the tasks of a job spent their time on a node, in seconds, summed over them."""

    time_s: float  #: how long they were scheduled
    messages_s: float  #: how long they waited in MPI
    blocked_s: float  #: how long they waited outside of MPI, without a wish for a CPU
    cpu_s: float  #: the CPU time of their main threads
    #: How long a task waited for a disk by the kernel's account; None: the kernel has none.
    stalled_io_s: float | None
    #: How long a task waited for reclaimed memory; None: the kernel has no account.
    stalled_memory_s: float | None
    read_bytes: int  #: bytes that were read from disks
    written_bytes: int  #: bytes that are or will be written to disks

    @property
    def files_s(self) -> float:
        """How long they waited for files, as far as that is known."""
        if self.stalled_io_s is not None:
            return min(self.stalled_io_s, self.blocked_s)
        return self.blocked_s if self.read_bytes or self.written_bytes else 0.0

    @property
    def idle_s(self) -> float:
        """How long they waited for something else."""
        return self.blocked_s - self.files_s

    @property
    def computing_s(self) -> float:
        """How long they computed, or wanted a CPU."""
        return max(0.0, self.time_s - self.messages_s - self.blocked_s)

    def percent(self, part_s: float) -> int:
        """Returns a part in percent of the time."""
        return round(100 * part_s / self.time_s) if self.time_s else 0


def summed(parts: Sequence[Spending]) -> Spending | None:
    """Returns the sum of several accounts; None if there are none. A part that one of them
    lacks is unknown in all."""
    if not parts:
        return None
    return Spending(
        sum(part.time_s for part in parts),
        sum(part.messages_s for part in parts),
        sum(part.blocked_s for part in parts),
        sum(part.cpu_s for part in parts),
        _sum_of([part.stalled_io_s for part in parts]),
        _sum_of([part.stalled_memory_s for part in parts]),
        sum(part.read_bytes for part in parts),
        sum(part.written_bytes for part in parts),
    )


def _sum_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


class TaskReading(NamedTuple):
    """The account of one task at a moment, since it began."""

    age_ns: int  #: how long its job had been scheduled
    on_cpu_ns: int  #: the CPU time of its first thread
    queued_ns: int  #: how long this thread waited for a CPU
    waits_ns: int  #: how long the task waited in MPI while its job was scheduled
    naps: int  #: how often it slept in these waits; 0: it had its CPU in all of them
    read_bytes: int  #: bytes that were read from disks
    written_bytes: int  #: bytes that it gave to the kernel for disks


def spent_between(
    readings: Iterable[tuple[TaskReading, TaskReading]],
    stalled_io_s: float | None = None,
    stalled_memory_s: float | None = None,
) -> Spending:
    """Returns how the tasks of a job spent their time. readings: of each task, the first
    one and the last one. A task that sleeps in MPI waits no more than once."""
    sums = [0, 0, 0, 0, 0, 0]
    for first, last in readings:
        step = TaskReading(*(max(0, b - a) for a, b in zip(first, last, strict=True)))
        off_cpu_ns = max(0, step.age_ns - step.on_cpu_ns - step.queued_ns)
        waits_ns = min(step.waits_ns, step.age_ns)
        blocked_ns = max(0, off_cpu_ns - waits_ns) if step.naps else off_cpu_ns
        blocked_ns = min(blocked_ns, step.age_ns - waits_ns)
        parts = step.age_ns, waits_ns, blocked_ns, step.on_cpu_ns
        for place, part in enumerate((*parts, step.read_bytes, step.written_bytes)):
            sums[place] += part
    time_s, messages_s, blocked_s, cpu_s = (ns / NS_PER_S for ns in sums[:4])
    stalls_s = stalled_io_s, stalled_memory_s
    return Spending(time_s, messages_s, blocked_s, cpu_s, *stalls_s, sums[4], sums[5])


class Verdict(str, Enum):
    """What was seen of a label."""

    RIGHT = "right"  # a resource of the label limited the job
    WRONG = "wrong"  # another resource did
    OPEN = "open"  # what was seen fits the label, and another one as well


class Found(Struct, frozen=True):
    """What limited a job."""

    limits: Limits  #: one of these resources; empty: none of them did
    doing: str  #: what it did most of the time: ``waiting for messages``
    percent: int  #: the part of its time in which it did that

    def verdict(self, label: Limits) -> Verdict:
        """Returns what this shows of a label that is not empty."""
        if not label & self.limits:
            return Verdict.WRONG if self.limits else Verdict.OPEN
        return Verdict.RIGHT if self.limits <= label else Verdict.OPEN

    def sentence(self, label: Limits) -> str:
        """Returns label and finding: ``labelled memory; was waiting for messages 61% of
        its time``."""
        names = ", ".join(resource.value for resource in Resource if resource in label)
        return f"labelled {names}; was {self.doing} {self.percent}% of its time"


def find_limits(
    spent: Spending, beside_memory: float | None, beside_others: float | None
) -> Found | None:
    """Returns what limited the job; None if it ran for too short a time.

    beside_memory, beside_others: its speed alone over its speed beside jobs that memory
    limits, and beside all others; None: unknown."""
    if spent.time_s < LEAST_S:
        return None
    parts = [
        (spent.messages_s, "waiting for messages", frozenset({Resource.NETWORK})),
        (spent.files_s, "waiting for files", frozenset({Resource.IO})),
        (spent.idle_s, "idle", frozenset()),
        (spent.computing_s, "computing", _of_computing(beside_memory, beside_others)),
    ]
    part_s, doing, limits = max(parts, key=lambda part: part[0])
    percent = spent.percent(part_s)
    return Found(limits if percent >= MOST_PERCENT else frozenset(), doing, percent)


def _of_computing(beside_memory: float | None, beside_others: float | None) -> Limits:
    """Returns what may limit a job that computes."""
    if beside_memory is None:
        return frozenset({Resource.CPU, Resource.MEMORY})
    usual = 1.0 if beside_others is None else beside_others
    slowed = beside_memory >= SLOWED and beside_memory > usual
    return frozenset({Resource.MEMORY if slowed else Resource.CPU})
