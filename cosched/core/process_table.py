"""The process table of a node as the core keeps it: a record for each job, and the list
of branches that a decision can take."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from cosched.core.messages import Job, Mode, Refusal, Task


class Branch(str, Enum):
    """Every way through the machine; each is counted."""

    REG_NEW_JOB = "reg_new_job"
    REG_NEW_TASK = "reg_new_task"
    REG_AGAIN = "reg_again"
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
    TURN_GIVEN = "turn_given"
    TURN_HELD = "turn_held"
    TURN_UNKNOWN = "turn_unknown"
    TURN_BARRED = "turn_barred"
    MODE_CHANGED = "mode_changed"
    MODE_KEPT = "mode_kept"
    MODE_UNKNOWN = "mode_unknown"
    ALARM_REARMED = "alarm_rearmed"
    ALARM_EARLY = "alarm_early"
    SETTINGS_CHANGED = "settings_changed"
    DOWN = "down"


@dataclass(slots=True, eq=False)
class JobState:
    """One MPI job on this node: the paper's entry in the process table."""

    key: Job
    tasks: dict[Task, frozenset[int]] = field(default_factory=dict)
    cpus: frozenset[int] = frozenset()
    mode: Mode = Mode.COSCHEDULED
    scheduled: bool = False
    contended: bool = False  #: another job of its group waits
    since_ns: int = 0  #: when it was last scheduled
    received_ns: int = 0  #: how long it has been scheduled, without the current time
    credit_ns: int = 0  #: the same, counted from where a newcomer starts
    epoch: int = 0
    awaits_gmet: bool = False  #: refused for GMET in this epoch
    switches: int = 0  #: times it was scheduled
    granted: int = 0
    refused: Counter[Refusal] = field(default_factory=Counter)
    pulled: bool = False  #: a trapped message brought it in, this time

    @property
    def alone(self) -> bool:
        """Whether no other job may be scheduled on its CPUs together with it."""
        return self.mode is Mode.RAISED

    def ran_ns(self, now_ns: int) -> int:
        """How long it has been scheduled this time."""
        return now_ns - self.since_ns if self.scheduled else 0

    def used_ns(self, now_ns: int) -> int:
        """The CPU time that fairness compares."""
        return self.credit_ns + self.ran_ns(now_ns)
