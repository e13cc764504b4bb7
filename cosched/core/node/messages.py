"""What goes into the node's state machine and what comes out of it.

Events are in the past tense, commands are imperative. A driver (the live daemon or the
simulator) supplies events and carries out commands, in order. Times are nanoseconds;
``now_ns`` never goes backwards (monotonic clock), ``wall_ns`` is the clock that nodes
have in common and serves aligned slices alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cosched.core.node.settings import Settings

Job = str  #: a job's key on this node
Task = int  #: a task's process id on this node


class Mode(str, Enum):
    """How a job's owner wants it treated on a node; see ``modes``."""

    COSCHEDULED = "coscheduled"
    RAISED = "raised"
    SUSPENDED = "suspended"
    RELEASED = "released"

    @property
    def takes_part(self) -> bool:
        """Whether it is ever scheduled and competes with others."""
        return self in (Mode.COSCHEDULED, Mode.RAISED)


class Cause(str, Enum):
    """Why a job's status changed."""

    FIRST = "first"  # nothing kept it from running when it arrived
    FREED = "freed"  # what it waited for has ended or shrunk
    SLICE = "slice"  # the slice was over
    PULLED = "pulled"  # a trapped message asked for it
    GIVEN = "given"  # somebody outside of the node gave it its turn
    DISPLACED = "displaced"  # another job was scheduled in its place
    CROWDED = "crowded"  # it, or a neighbour, grew: they no longer fit side by side
    REARMED = "rearmed"  # still unscheduled; may ask again now that GMET is over
    SUSPENDED = "suspended"  # its owner suspended it
    RESUMED = "resumed"  # its owner made it an ordinary job again
    RAISED = "raised"  # its owner gave it its CPUs alone
    RELEASED = "released"  # its owner took it out of coscheduling: it runs freely
    SHUTDOWN = "shutdown"  # the daemon ends: everything runs freely


class Refusal(str, Enum):
    """Why a trapped message did not cause a switch."""

    GMET = "gmet"  # the scheduled job has not had its guaranteed time
    PRECEDED = "preceded"  # what runs was submitted before, and came in amid a slice
    AHEAD = "ahead"  # the asking job has had more CPU time than another waits for
    SCHEDULED = "scheduled"  # it is scheduled already
    STALE = "stale"  # the request was posted before the last change of its status
    SUSPENDED = "suspended"  # its owner suspended it
    BARRED = "barred"  # a raised job has its CPUs to itself
    UNKNOWN = "unknown"  # no such task here


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened on the node."""

    now_ns: int
    wall_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRegistered(Event):
    """CMDREG: a task is about to start on the CPUs it may use.

    ``submitted_ns`` is when its job was submitted, by the wall clock (since 1970) of the
    host from which it was, so all its nodes hear the same; 0: it does not say. ``adopted``:
    the task was here before this machine, and ``submitted_ns`` is the date by which another
    one put the job in order. ``replaces``: the task of the job that it takes the place of,
    such as itself when it was launched, or the shell that has started it.
    """

    job: Job
    task: Task
    cpus: frozenset[int]
    submitted_ns: int = 0
    adopted: bool = False
    replaces: Task | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExited(Event):
    """CMDOUT: a task deregistered, or its process ended."""

    job: Job
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceEnded(Event):
    """CMDCSW: the timer daemon says that the slice is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrapped(Event):
    """CMDSCH: an unscheduled task received a message from a scheduled peer.

    ``epoch`` is that of the status the task saw, in its low 32 bits.
    """

    job: Job
    task: Task
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnGiven(Event):
    """Somebody who sees all nodes gives the job its turn, whoever has it now.

    Not the paper's: it makes the ideal, centrally driven switch that decentralised
    coscheduling is measured against.
    """

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChosen(Event):
    """The job's owner, or root, wants it treated in another way. Not the paper's."""

    job: Job
    mode: Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownRequested(Event):
    """CMDDWN: the scheduler daemon is to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRang(Event):
    """The time of the last SetAlarm has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChanged(Event):
    """An operator changed slice, GMET or alignment."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class Command:
    """Something the driver is to do."""


@dataclass(frozen=True, slots=True)
class CreateClass(Command):
    """Make a class of CPU shares for a new job, or tell an existing one its CPUs."""

    job: Job
    cpus: frozenset[int]


@dataclass(frozen=True, slots=True)
class DestroyClass(Command):
    job: Job


@dataclass(frozen=True, slots=True)
class AddTask(Command):
    """Move a task into its job's class."""

    job: Job
    task: Task


@dataclass(frozen=True, slots=True)
class RemoveTask(Command):
    job: Job
    task: Task


@dataclass(frozen=True, slots=True)
class FreezeClass(Command):
    """Stop every process of a class, those that it has by now."""

    job: Job


@dataclass(frozen=True, slots=True)
class ThawClass(Command):
    """Continue every process of a class."""

    job: Job


@dataclass(frozen=True, slots=True)
class PublishMode(Command):
    """Write a job's mode down where whoever outlives the daemon finds it."""

    job: Job
    mode: Mode


@dataclass(frozen=True, slots=True)
class SetShares(Command):
    """The percentage of its CPUs that each class gets, all classes that take part."""

    percents: tuple[tuple[Job, int], ...]


@dataclass(frozen=True, slots=True)
class PublishStatus(Command):
    """Tell a job's tasks whether they are scheduled; ``epoch`` grows with each change."""

    job: Job
    epoch: int
    scheduled: bool
    cause: Cause


@dataclass(frozen=True, slots=True)
class PublishContention(Command):
    """Tell a job's tasks whether another job waits for their CPUs: if so, a task that
    waits long for a message leaves them the CPU meanwhile."""

    job: Job
    contended: bool


@dataclass(frozen=True, slots=True)
class OrderTimer(Command):
    """Say when the timer daemon sends the next CMDCSW.

    idle: no job waits for a CPU, so no slice ends. align: slices end at multiples of
    ``slice_ns`` in wall-clock time; otherwise the slice ends at ``deadline_ns``.
    """

    idle: bool
    align: bool
    slice_ns: int
    deadline_ns: int

    def next_tick_ns(self, now_ns: int, wall_ns: int, fired_ns: int) -> int | None:
        """Returns when the slice ends: by the wall clock if aligned, otherwise by the
        monotonic clock. None: no slice ends.

        ``fired_ns`` is when the last CMDCSW was sent. If it was sent for this deadline
        and brought no new orders, the next one follows a slice later.
        """
        if self.idle or not self.slice_ns:
            return None
        if self.align:
            return (wall_ns // self.slice_ns + 1) * self.slice_ns
        if self.deadline_ns > fired_ns:
            return self.deadline_ns
        return max(now_ns, fired_ns + self.slice_ns)


@dataclass(frozen=True, slots=True)
class SetAlarm(Command):
    """Send AlarmRang at ``at_ns``; replaces an earlier alarm."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class RefuseRequest(Command):
    """A trapped message causes no switch. For the record: nothing is to be done.

    by_ns: how much of its guaranteed time the other job still has (GMET), or how much
        more CPU time the asking job has had than the other (AHEAD); else 0.
    other: the job for whose sake it was refused, if for one's.
    """

    job: Job
    task: Task
    reason: Refusal
    by_ns: int = 0
    other: Job | None = None
