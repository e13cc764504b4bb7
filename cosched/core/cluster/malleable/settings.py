"""What a scheduler of malleable jobs is made of (section 2.2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cosched.core.cluster.malleable.harvest import NEVER, Harvest
from cosched.core.errors import CoschedError


class Distribution(str, Enum):
    """Who gets the nodes of a job that ended, once the degree is reached."""

    FAVOUR_RUNNING = "favour-running"  # jobs below their ideal, then the queue
    FAVOUR_QUEUED = "favour-queued"  # the queue, then jobs below their ideal
    QUEUED_ONLY = "queued-only"  # running jobs are given nothing


@dataclass(frozen=True, slots=True)
class Control:
    """What all policies must respect.

    harvest_limit: how often a job may be harvested; None: any number of times.
    protected_ns: a job is not harvested before it has run so long.
    least_worth: the benefit of a change, as a multiple of its cost, that it must have;
    0: it is not asked. See ``worth``.
    """

    harvest_limit: int | None = None
    protected_ns: int = 0
    least_worth: float = 0.0

    def __post_init__(self) -> None:
        if self.harvest_limit is not None and self.harvest_limit < 0:
            raise CoschedError(f"harvest limit {self.harvest_limit}: want 0 or more")
        if self.protected_ns < 0:
            raise CoschedError(f"protected age {self.protected_ns} ns: want 0 or more")
        if self.least_worth < 0.0:
            raise CoschedError(f"least worth {self.least_worth:g}: want 0 or more")


@dataclass(frozen=True, slots=True)
class Policy:
    """Admission, harvest, distribution, control.

    degree: the degree of multiprogramming that admission tries to achieve,
    achieve_mp(M); None: no limit.
    """

    harvest: Harvest
    distribution: Distribution
    degree: int | None = None
    control: Control = Control()

    def __post_init__(self) -> None:
        if self.degree is not None and self.degree < 1:
            raise CoschedError(f"degree of multiprogramming {self.degree}: want 1 or more")


#: An arriving job gets what is free between its minimum and its ideal, and keeps it.
MOLDABLE = Policy(NEVER, Distribution.QUEUED_ONLY)
