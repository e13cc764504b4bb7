"""Defines the events that the node's machine takes and the commands that it returns.

Events are in the past tense, commands are imperative. A driver (the live daemon or the
simulator) supplies the events and carries out the commands, in order. Times are in
nanoseconds. ``now_ns`` is the monotonic clock. ``wall_ns`` is the clock that the nodes have
in common; only aligned slices and times of submission use it.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from cosched.core.node.cpu_need import Use
from cosched.core.node.knowledge import UNKNOWN, Ended, Expectation
from cosched.core.node.prospect import Prospect
from cosched.core.node.settings import Settings

Job = str  #: a job's key on this node
Task = int  #: a task's process id on this node


class Mode(str, Enum):
    """How a job is treated on a node: as its owner wants, or RESTING; see ``modes``."""

    COSCHEDULED = "coscheduled"
    RAISED = "raised"
    SUSPENDED = "suspended"
    RELEASED = "released"
    RESTING = "resting"  # the node stops it for a moment; see ``resting_jobs``

    @property
    def stops(self) -> bool:
        """Whether the job's processes are stopped."""
        return self in (Mode.SUSPENDED, Mode.RESTING)

    @property
    def takes_part(self) -> bool:
        """Whether the job competes with others and is ever scheduled."""
        return self in (Mode.COSCHEDULED, Mode.RAISED)


class Cause(str, Enum):
    """Why a job's status changed."""

    FIRST = "first"  # it, or a job beside it, arrived, and it could run
    FREED = "freed"  # a job left or became smaller
    SLICE = "slice"  # a slice ended
    PULLED = "pulled"  # a trapped message pulled a switch
    GIVEN = "given"  # a driver outside of the node gave a turn
    DISPLACED = "displaced"  # another job was scheduled in its place
    CROWDED = "crowded"  # a job grew, so they no longer fit side by side
    REARMED = "rearmed"  # still unscheduled; it may ask again because GMET is over
    UNBLOCKED = "unblocked"  # the same, because the jobs that run or wait have changed
    DISCARDED = "discarded"  # the same, because its request was discarded
    SUSPENDED = "suspended"  # its owner suspended it
    RESUMED = "resumed"  # an owner made a job an ordinary job again
    RAISED = "raised"  # an owner raised a job
    RELEASED = "released"  # its owner released it: it runs at normal shares
    RESTING = "resting"  # it rests, so that jobs on other CPUs are seen without it
    RESTED = "rested"  # its rest, or that of a job beside it, is over
    SHUTDOWN = "shutdown"  # the daemon ends: every job runs at normal shares

    @property
    def follows_order(self) -> bool:
        """Whether jobs are scheduled for this cause in their order."""
        return self not in (Cause.PULLED, Cause.GIVEN)

    @property
    def allows_requests(self) -> bool:
        """Whether the job stays unscheduled and may only ask again."""
        return self in (Cause.REARMED, Cause.UNBLOCKED, Cause.DISCARDED)


class Refusal(str, Enum):
    """Why a trapped message caused no switch."""

    GMET = "gmet"  # the scheduled job has not had its GMET
    PRECEDED = "preceded"  # the scheduled job was submitted before, and has precedence
    AHEAD = "ahead"  # the asking job has had much more CPU time than a waiting one
    SCHEDULED = "scheduled"  # it is already scheduled
    STALE = "stale"  # its status has changed since the request
    SUSPENDED = "suspended"  # its owner suspended it
    BARRED = "barred"  # a raised job has its CPUs alone
    UNKNOWN = "unknown"  # no such task is registered


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened on the node."""

    now_ns: int  #: the time by the monotonic clock
    wall_ns: int  #: the time by the wall clock


class TaskRegistered(Event, frozen=True, kw_only=True):
    """CMDREG: a task starts on the CPUs that it may use."""

    job: Job  #: the key of its job
    task: Task  #: its process id
    cpus: frozenset[int]  #: numbers of the CPUs that it may use
    #: When its job was submitted, by the wall clock of the submitting host, so the same
    #: on all nodes; 0: unknown.
    submitted_ns: int = 0
    #: The task was here before this machine; ``submitted_ns`` is then the
    #: ``submission_key`` by which an earlier machine ordered the job.
    adopted: bool = False
    #: Where the epochs of a new job begin. The tasks of an adopted one ask once an epoch,
    #: so an epoch of the earlier machine must not come again.
    epoch: int = 0
    #: The task of the job whose place it takes: itself when it was launched, or the shell
    #: that started it; None: it takes no place.
    replaces: Task | None = None
    user: int = 0  #: the owner's number
    expectation: Expectation = UNKNOWN  #: how long like jobs ran, the same on all nodes
    launcher: bool = False  #: it starts tasks and is none itself; see ``launchers``


class TaskExited(Event, frozen=True, kw_only=True):
    """CMDOUT: a task deregistered, or its process ended; or a launcher leaves its job."""

    job: Job  #: the key of its job
    task: Task  #: its process id


class SliceEnded(Event, frozen=True, kw_only=True):
    """CMDCSW: the timer daemon reports that a slice is over."""


class MessageTrapped(Event, frozen=True, kw_only=True):
    """CMDSCH: an unscheduled task received a message from a scheduled peer."""

    job: Job  #: the key of the receiver's job
    task: Task  #: the receiver's process id
    epoch: int  #: the status that the task read, in its low 32 bits


class UseRead(Event, frozen=True, kw_only=True):
    """The driver has read what the tasks of the jobs did. Not in the paper."""

    uses: tuple[tuple[Job, Use], ...]  #: of each job


class TurnGiven(Event, frozen=True, kw_only=True):
    """A driver that sees all nodes gives the job its turn. Not in the paper.

    It makes the ideal central switch with which decentralised coscheduling is compared.
    """

    job: Job  #: the key of the job


class ModeChosen(Event, frozen=True, kw_only=True):
    """The job's owner, or root, chose another mode. Not in the paper."""

    job: Job  #: the key of the job
    mode: Mode  #: the new mode


class RestChosen(Event, frozen=True, kw_only=True):
    """The driver lets jobs rest for a moment. Not in the paper."""

    jobs: tuple[Job, ...]  #: the keys of the jobs that rest; all others go on
    until_ns: int  #: when the rest ends at the latest, by the monotonic clock


class ShutdownRequested(Event, frozen=True, kw_only=True):
    """CMDDWN: the scheduler daemon ends."""


class AlarmRang(Event, frozen=True, kw_only=True):
    """The time of the last SetAlarm has come."""


class SettingsChanged(Event, frozen=True, kw_only=True):
    """An operator changed slice, GMET or alignment."""

    settings: Settings  #: all settings from now on


class KnowledgeReplaced(Event, frozen=True, kw_only=True):
    """An operator chose the ended jobs from which the node learns, in the order of their
    ends. Not in the paper."""

    ended: tuple[Ended, ...]  #: the jobs; empty: the node forgets all


class Command(Struct, frozen=True):
    """Something that the driver does."""


class CreateClass(Command, frozen=True):
    """Make a class of CPU shares for a job that may use these CPUs."""

    job: Job  #: the key of the job
    cpus: frozenset[int]  #: the CPUs' numbers


class SetClassCpus(Command, frozen=True):
    """Note the CPUs that a job may now use; the next share of its class is of these."""

    job: Job  #: the key of the job
    cpus: frozenset[int]  #: the CPUs' numbers


class DestroyClass(Command, frozen=True):
    job: Job  #: the key of the job


class AddTask(Command, frozen=True):
    """Move a task into its job's class."""

    job: Job  #: the key of the job
    task: Task  #: the task's process id


class RemoveTask(Command, frozen=True):
    job: Job  #: the key of the job
    task: Task  #: the task's process id


class FreezeClass(Command, frozen=True):
    """Stop every process that the class has now."""

    job: Job  #: the key of the job


class ThawClass(Command, frozen=True):
    """Continue every process of a class."""

    job: Job  #: the key of the job


class PublishMode(Command, frozen=True):
    """Write a job's mode to its region; the guardian and the next daemon read it."""

    job: Job  #: the key of the job
    mode: Mode  #: its mode now


class SetShares(Command, frozen=True):
    """Give each class this percentage of its CPUs; all classes that take part."""

    percents: tuple[tuple[Job, int], ...]  #: job and percentage of each class


class PublishStatus(Command, frozen=True):
    """Publish to a job's tasks whether it is scheduled; each change has a new epoch."""

    job: Job  #: the key of the job
    epoch: int  #: the number of the change
    scheduled: bool  #: whether the job is scheduled now
    cause: Cause  #: why the status changed
    #: The job's place at the decision; None: the order of the jobs did not decide.
    prospect: Prospect | None = None


class PublishContention(Command, frozen=True):
    """Publish to a job's tasks whether another job waits for their CPUs. If so, a task that
    waits long for a message gives up its CPU meanwhile."""

    job: Job  #: the key of the job
    contended: bool  #: whether another job waits for their CPUs


class OrderTimer(Command, frozen=True):
    """Set when the timer daemon sends the next CMDCSW."""

    idle: bool  #: no job waits for a CPU, so no slice ends
    #: Slices end at multiples of ``slice_ns`` in wall-clock time, otherwise at
    #: ``deadline_ns``.
    align: bool
    slice_ns: int  #: length of a slice
    #: When the slice ends; 0: slices follow each other from the beginning of the timer
    #: on.
    deadline_ns: int

    def next_tick_ns(
        self, now_ns: int, wall_ns: int, fired_ns: int, began_ns: int = 0
    ) -> int | None:
        """Returns when the slice ends: by the wall clock if aligned, otherwise by the
        monotonic clock. None: no slice ends.

        ``fired_ns`` is when the last CMDCSW was sent. If it was sent for this deadline
        and brought no new orders, the next one follows a slice later. ``began_ns`` is when
        the timer began.
        """
        if self.idle or not self.slice_ns:
            return None
        if self.align:
            return (wall_ns // self.slice_ns + 1) * self.slice_ns
        if not self.deadline_ns:
            return now_ns + self.slice_ns - (now_ns - began_ns) % self.slice_ns
        if self.deadline_ns > fired_ns:
            return self.deadline_ns
        return max(now_ns, fired_ns + self.slice_ns)


class SetAlarm(Command, frozen=True):
    """Send AlarmRang at ``at_ns``; replaces an earlier alarm."""

    at_ns: int  #: the time by the monotonic clock


class RefuseRequest(Command, frozen=True):
    """Record that a trapped message causes no switch; the driver does nothing."""

    job: Job  #: the key of the asking job
    task: Task  #: the asking task's process id
    reason: Refusal  #: why no switch follows
    #: The guaranteed time that the other job has left (GMET, PRECEDED), or how much more
    #: CPU time the asking job has had (AHEAD); otherwise 0.
    by_ns: int = 0
    #: The job for whose sake the request was refused; None: there is none.
    other: Job | None = None


class Branch(str, Enum):
    """The ways through the machine; each is counted."""

    REG_NEW_JOB = "reg_new_job"
    REG_NEW_TASK = "reg_new_task"
    REG_AGAIN = "reg_again"
    REG_MOVED = "reg_moved"
    REG_LAUNCHER = "reg_launcher"
    REG_BEFORE_TASKS = "reg_before_tasks"  # besides reg_new_job: it began with a launcher
    OUT_TASK = "out_task"
    OUT_JOB = "out_job"
    OUT_UNKNOWN = "out_unknown"
    CSW_SWITCHED = "csw_switched"
    CSW_KEPT = "csw_kept"
    CSW_NOTHING_DUE = "csw_nothing_due"
    SCH_GRANTED = "sch_granted"
    SCH_REFUSED_GMET = "sch_refused_gmet"
    SCH_REFUSED_PRECEDED = "sch_refused_preceded"
    SCH_REFUSED_AHEAD = "sch_refused_ahead"
    SCH_REFUSED_SCHEDULED = "sch_refused_scheduled"
    SCH_REFUSED_STALE = "sch_refused_stale"
    SCH_REFUSED_UNKNOWN = "sch_refused_unknown"
    SCH_REFUSED_SUSPENDED = "sch_refused_suspended"
    SCH_REFUSED_BARRED = "sch_refused_barred"
    USE_READ = "use_read"
    TURN_GIVEN = "turn_given"
    TURN_HELD = "turn_held"
    TURN_UNKNOWN = "turn_unknown"
    TURN_BARRED = "turn_barred"
    MODE_CHANGED = "mode_changed"
    MODE_KEPT = "mode_kept"
    MODE_UNKNOWN = "mode_unknown"
    REST_BEGAN = "rest_began"
    REST_NONE = "rest_none"
    ALARM_REARMED = "alarm_rearmed"
    ALARM_EARLY = "alarm_early"
    SETTINGS_CHANGED = "settings_changed"
    KNOWLEDGE_REPLACED = "knowledge_replaced"
    DOWN = "down"
