"""The list of branches that a node's decisions can take."""

from __future__ import annotations

from enum import Enum


class Branch(str, Enum):
    """Every way through the machine; each is counted."""

    REG_NEW_JOB = "reg_new_job"
    REG_NEW_TASK = "reg_new_task"
    REG_AGAIN = "reg_again"
    REG_MOVED = "reg_moved"
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
