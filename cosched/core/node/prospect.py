"""Describes the place of a job in the order of its group, and the reason for it."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Reason(str, Enum):
    """Why a job has its place."""

    ENDING = "ending"  #: it is about to end
    DUE = "due"  #: it must get its guaranteed part of the time
    LEFT = "left"  #: by what is left of it
    OUTLIVED = "outlived"  #: it ran longer than expected
    UNKNOWN = "unknown"  #: by its age, because its length is unknown


class Prospect(Struct, frozen=True):
    """One job in the order."""

    place: int  #: 0: the first job of its group
    reason: Reason  #: why it has this place
    cost_ns: int  #: the figure that orders the jobs, see ``knowledge``
    #: The age that counts; if the length is unknown, that of the oldest like job.
    age_ns: int
    expected_ns: int = 0  #: its expected length, corrected as in ``knowledge``; 0: unknown
    left_ns: int = 0  #: its probable rest; 0: unknown
    lengths: int = 0  #: the number of like jobs that the expected length is from
