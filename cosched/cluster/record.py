"""Describes a job of a domain as its controller keeps it (``store.py``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec

from cosched.cluster.job_size import JobSize, names_at
from cosched.cluster.job_suspension import JobSuspension
from cosched.cluster.submission import Submission
from cosched.core.bounds import JobNumber, Natural, UserId


class State(Enum):
    """The state of a job in its domain."""

    HELD = "held"
    QUEUED = "queued"
    STARTING = "starting"  #: a start was sent to the nodes; no task has begun
    RUNNING = "running"  #: the order to go was, or will be, sent
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    NODE_LOST = "node lost"

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self not in _LIVE


_LIVE = frozenset({State.HELD, State.QUEUED, State.STARTING, State.RUNNING})


@dataclass(slots=True)
class Record:
    """A job as it is stored. Times are by the wall clock, ns; None: not yet."""

    number: int  #: the job's number
    uid: int  #: its user
    gid: int  #: the user's group
    submission: Submission  #: as its user wrote it, with the bounds of the latest resize
    submitted_ns: int  #: ns since 1970
    state: State  #: the job's state in its domain
    start: int = 0  #: how often the job was started
    #: The names of all nodes that it has or had in its latest start, by place; they stay
    #: when domain.toml gets other nodes.
    hosts: tuple[str, ...] = ()
    started_ns: int | None = None  #: ns since 1970; None: it has not begun
    ended_ns: int | None = None  #: ns since 1970; None: it has not ended
    status: int | None = None  #: as a shell reports it; None: it has none
    reason: str = ""  #: one line; empty: none
    failed_starts: int = 0  #: how many of its starts nodes in service could not make
    size: JobSize | None = None  #: of a malleable job in its latest start; None: rigid
    #: The part of each of ``hosts`` that it has or had, 0 for the top half and 1 for the
    #: bottom half; (): whole nodes.
    parts: tuple[int, ...] = ()
    #: Its suspensions in its latest start, and the job that lends it nodes; None: neither.
    suspension: JobSuspension | None = None
    array: int = 0  #: the number of the first task of its array; 0: it is in none
    task: int | None = None  #: its index in the array; None: it is in none
    #: When it entered the queue, ns since 1970, if it was kept back before; otherwise None.
    let_in_ns: int | None = None

    @property
    def label(self) -> str:
        """Returns its number as users write it: ``12``, or ``12_3`` in an array."""
        return f"{self.array}_{self.task}" if self.array else str(self.number)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Returns the names of the nodes that have its tasks, or had them at its end."""
        return self.hosts if self.size is None else names_at(self.hosts, self.size.places)

    @property
    def admitted(self) -> tuple[str, ...]:
        """Returns the names of the nodes that may have its tasks, also arriving ones."""
        if self.size is None:
            return self.hosts
        places = (*self.size.places, *self.size.arriving)
        return names_at(self.hosts, places)

    def used_ns(self, now_ns: int) -> int:
        """Returns the time of all its nodes in its latest start, added up, until now or its
        end."""
        if self.started_ns is None:
            return 0
        until_ns = self.ended_ns or now_ns
        size = self.size or JobSize((tuple(range(len(self.hosts))),))
        used_ns = size.used_ns(until_ns, self.started_ns)
        return used_ns // 2 if self.parts else used_ns


class Outcome(msgspec.Struct, array_like=True, frozen=True):
    """A job and its state."""

    number: JobNumber  #: the job's number
    array: Natural  #: the number of the first task of its array; 0: it is in none
    task: Natural | None  #: its index in its array; None: it is in none
    uid: UserId  #: its user
    state: State  #: its state in the domain

    @property
    def label(self) -> str:
        """Returns its number as users write it, as ``Record.label``."""
        return f"{self.array}_{self.task}" if self.array else str(self.number)
