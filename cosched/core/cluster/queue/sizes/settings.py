"""Defines how the sizes of malleable jobs change (section 2.2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cosched.core.cluster.queue.sizes.harvest_policies import (
    EVEN,
    LOW_IMPACT,
    NEVER,
    Harvest,
)
from cosched.core.cluster.queue.sizes.suspension import Suspension
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S


class Distribution(str, Enum):
    """The order in which a job's nodes are given away when it has ended."""

    FAVOUR_RUNNING = "favour-running"  # jobs below their ideal, then the queue
    FAVOUR_QUEUED = "favour-queued"  # the queue, then jobs below their ideal
    QUEUED_ONLY = "queued-only"  # running jobs get no nodes


@dataclass(frozen=True, slots=True)
class Control:
    """Limits for all policies.

    A change takes time: the job must reach a boundary of its iterations first.
    """

    harvest_limit: int | None = None  #: how often a job may be harvested; None: no limit
    protected_ns: int = 0  #: the age before which a job is not harvested
    #: The least benefit of a change, as a multiple of its cost; 0: no limit (``benefit``).
    least_benefit: float = 0.0
    #: How long a change may take before the plan does without it, ns; None: for ever.
    change_ns: int | None = None
    #: How long a job keeps its size after it refused a change or was late with one, ns.
    spared_ns: int = 60 * NS_PER_S

    def __post_init__(self) -> None:
        if self.harvest_limit is not None and self.harvest_limit < 0:
            raise CoschedError(f"harvest limit {self.harvest_limit}: want 0 or more")
        if self.protected_ns < 0:
            raise CoschedError(f"protected age {self.protected_ns} ns: want 0 or more")
        if self.least_benefit < 0.0:
            raise CoschedError(f"least worth {self.least_benefit:g}: want 0 or more")
        if self.change_ns is not None and self.change_ns < 1:
            raise CoschedError(f"time of a change {self.change_ns} ns: want 1 or more")
        if self.spared_ns < 1:
            raise CoschedError(f"spared time {self.spared_ns} ns: want 1 or more")


@dataclass(frozen=True, slots=True)
class SizePolicy:
    """Admission, harvest, distribution and control."""

    harvest: Harvest  #: which running jobs give and get nodes
    distribution: Distribution  #: the order in which free nodes are given
    #: Admission tries to reach this degree of multiprogramming, achieve_mp(M). None: no
    #: limit.
    degree: int | None = None
    control: Control = Control()  #: when a change is worth its cost
    changes: bool = True  #: whether a running job may give nodes
    suspension: Suspension | None = None  #: when a job is suspended; None: never

    def __post_init__(self) -> None:
        if self.degree is not None and self.degree < 1:
            raise CoschedError(f"degree of multiprogramming {self.degree}: want 1 or more")

    @property
    def problem_with_easy(self) -> tuple[str, str] | None:
        """Returns the setting that does not combine with EASY, and one line about it; None:
        all do. A reserved job relies on harvests, so nothing may limit them."""
        if self.changes and self.harvest not in (EVEN, LOW_IMPACT):
            others = f"{EVEN.name} or {LOW_IMPACT.name}"
            return (
                "harvest",
                f"{self.harvest.name} does not combine with easy; want {others}",
            )
        if self.suspension is not None:
            return (
                "suspend",
                "does not combine with easy, which reserves nodes",
            )
        control = self.control
        for name, limited in (
            ("degree", self.degree is not None),
            ("harvest_limit", control.harvest_limit is not None),
            ("protected", control.protected_ns > 0),
            ("least_benefit", control.least_benefit > 0.0),
        ):
            if limited:
                return name, "does not combine with easy: the first job relies on harvests"
        return None


#: An arriving job gets the free nodes, from its minimum to its ideal, and keeps them.
MOLDABLE = SizePolicy(NEVER, Distribution.QUEUED_ONLY, changes=False)
