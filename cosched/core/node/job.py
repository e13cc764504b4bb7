"""Holds the state of one job: the paper's entry in the process table."""

from __future__ import annotations

from msgspec import Struct, field, structs

from cosched.core.node.cpu_need import Reading, Use, measured_percent, next_percent
from cosched.core.node.knowledge import UNKNOWN, Expectation
from cosched.core.node.messages import Cause, Job, Mode, Task
from cosched.core.units import NS_PER_S

#: A submission counts as recent for this long; see ``submission_key``. It covers the time
#: in which the launcher reaches all nodes of a job.
LAUNCH_NS = 10 * NS_PER_S


class JobState(Struct):
    """One MPI job on this node."""

    key: Job  #: its identity on this node
    submitted_ns: int = 0  #: the job's ``submission_key``
    tasks: dict[Task, frozenset[int]] = field(default_factory=dict)  #: the CPUs of each
    cpus: frozenset[int] = frozenset()  #: the CPUs of all its tasks, or of its launchers
    launchers: dict[Task, frozenset[int]] = field(default_factory=dict)  #: as ``tasks``
    joined: bool = False  #: a task of it has registered
    bare_age_ns: int = 0  #: its age when it came to have launchers alone
    mode: Mode = Mode.COSCHEDULED  #: how its owner wants it to run
    scheduled: bool = False  #: it has its CPUs now
    contended: bool = False  #: another job of its group waits
    since_ns: int = 0  #: when its slice began
    came_by: Cause = Cause.FIRST  #: why it was last scheduled
    received_ns: int = 0  #: the CPU time of its earlier slices: its age
    credit_ns: int = 0  #: the same, counted from where a newcomer's account starts
    epoch: int = 0  #: grows with each status
    awaits_gmet: bool = False  #: refused in this epoch because of another job's GMET
    awaits_switch: bool = False  #: refused in this epoch for the sake of another job
    switches: int = 0  #: how often it was scheduled
    received_is_complete: bool = True  #: it never ran without being counted
    user: int = 0  #: the owner's number
    expectation: Expectation = UNKNOWN  #: how long like jobs were scheduled
    period_ns: int = 0  #: when its period began; see ``guarantee``
    period_age_ns: int = 0  #: its age at that time
    reading: Reading | None = None  #: the last reading of its use; None: none yet
    need: int = 0  #: the part of its CPUs that it needs, in percent; 0: unknown

    def copy(self) -> JobState:
        """Returns a copy that later events do not change."""
        return structs.replace(self, tasks=dict(self.tasks), launchers=dict(self.launchers))

    @property
    def members(self) -> dict[Task, frozenset[int]]:
        """The processes of its class: its tasks and its launchers."""
        return {**self.tasks, **self.launchers}

    @property
    def starting(self) -> bool:
        """Whether its launchers are here and no task has registered yet."""
        return not self.joined

    @property
    def ending(self) -> bool:
        """Whether its tasks have left and its launchers are still here."""
        return self.joined and not self.tasks

    @property
    def needs(self) -> list[frozenset[int]]:
        """A set for each CPU that it needs: the CPUs of a task, or of all launchers."""
        return list(self.tasks.values()) or [self.cpus]

    @property
    def alone(self) -> bool:
        """Whether no other job may be scheduled beside it on its CPUs."""
        return self.mode is Mode.RAISED

    @property
    def precedence(self) -> tuple[int, Job]:
        """The order of submission. It is the same on all nodes; the lowest comes first."""
        return self.submitted_ns, self.key

    @property
    def likeness(self) -> tuple[int, int]:
        """The user and the kind. Like jobs have the same, unless the kind is unknown."""
        return self.user, self.expectation.kind

    def ran_ns(self, now_ns: int) -> int:
        """How much of its slice it has had; 0 if it is not scheduled."""
        return now_ns - self.since_ns if self.scheduled else 0

    def age_ns(self, now_ns: int) -> int:
        """How long it has been scheduled on this node in all."""
        return self.received_ns + self.ran_ns(now_ns)

    def used_ns(self, now_ns: int) -> int:
        """The CPU time that fairness compares."""
        return self.credit_ns + self.ran_ns(now_ns)

    def account(self, now_ns: int) -> None:
        """Books the present slice and begins another one."""
        ran_ns = self.ran_ns(now_ns)
        self.received_ns += ran_ns
        self.credit_ns += ran_ns
        self.since_ns = now_ns

    def read_use(self, now_ns: int, use: Use) -> None:
        """Measures its need if it was scheduled since the last reading."""
        before = self.reading
        self.reading = Reading(now_ns, self.age_ns(now_ns), self.contended, use)
        if before is not None:
            measured = measured_percent(
                before, self.reading, len(self.tasks), len(self.cpus)
            )
            if measured is not None:
                self.need = next_percent(self.need, measured)

    def next_epoch(self) -> int:
        """Counts a change of its status; returns the new epoch."""
        self.epoch += 1
        return self.epoch


def submission_key(submitted_ns: int, wall_ns: int) -> int:
    """Returns the submission time that orders a job that registers at ``wall_ns``.

    The nodes of a job must agree on this time, although they register the job at different
    moments. A job must not gain by a long wait in a queue, or by a false submission time.
    So a time before the last whole ``LAUNCH_NS`` counts as the beginning of that period.
    An unknown time counts as the beginning of the present period, and so does a time that
    is more than ``LAUNCH_NS`` ahead of this clock.
    """
    present_ns = wall_ns // LAUNCH_NS * LAUNCH_NS
    if not 0 < submitted_ns <= wall_ns + LAUNCH_NS:
        return present_ns
    return max(submitted_ns, present_ns - LAUNCH_NS)


def began_after_s(submitted_ns: int, began_ns: int) -> float | None:
    """Returns how many seconds after its submission a job began, both by the wall clock.

    None if the submission is unknown, or more than ``LAUNCH_NS`` ahead of this clock. If it
    is less ahead, the result is 0.
    """
    if not 0 < submitted_ns <= began_ns + LAUNCH_NS:
        return None
    return max(0, began_ns - submitted_ns) / NS_PER_S


def restored_submission_key(recorded_ns: int, began_ns: int, wall_ns: int) -> int:
    """Returns the key that an earlier machine recorded, limited to what is possible.

    The job's user can change the record. ``began_ns`` is when the job's first task began.
    """
    return min(max(recorded_ns, began_ns - 2 * LAUNCH_NS), wall_ns + LAUNCH_NS)
