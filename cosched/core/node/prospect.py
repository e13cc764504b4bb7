"""Describes the place of a job in the order of its group, and the reason for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Reason(str, Enum):
    """Why a job has its place."""

    ENDING = "ending"  #: it is about to end
    DUE = "due"  #: it must get its guaranteed part of the time
    LEFT = "left"  #: by what is left of it
    OUTLIVED = "outlived"  #: it ran longer than expected
    UNKNOWN = "unknown"  #: by its age, because its length is unknown


@dataclass(frozen=True, slots=True)
class Prospect:
    """One job in the order.

    place: 0 for the first job of its group.
    cost_ns: by which the jobs are ordered, see ``knowledge``.
    age_ns: the age that counts; if the length is unknown, that of the oldest like job.
    expected_ns: its expected length, corrected as in ``knowledge``. left_ns: the probable
        rest of it. Both are 0 if they are unknown.
    lengths: from so many lengths of like jobs.
    """

    place: int
    reason: Reason
    cost_ns: int
    age_ns: int
    expected_ns: int = 0
    left_ns: int = 0
    lengths: int = 0
