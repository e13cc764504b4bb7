"""What one domain has decided about coscheduling. No domain knows another's."""

from __future__ import annotations

from dataclasses import dataclass

from cosched.core.cluster.coupling.messages import Scheme
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

RELEASE_NS = 20 * 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class CouplingSettings:
    """Section IV.E of the paper, and one addition.

    enabled: if not, jobs start without regard to their mates.
    scheme: hold or yield.
    release_ns: how often holding jobs give their nodes back for others to try; None:
        never, and two domains that hold can wait for each other for good.
    held_cap: the share of the nodes that may be held; a job beyond it yields.
    yield_cap: after so many yields a job holds; None: it yields for ever.
    raise_by: places to the front that each yield moves a job up in later passes.
    match_first: at a release, jobs that can start are looked for before any holds again.
        The paper does without. Then jobs can take turns at holding, in each domain
        another, and none ever meets its mate.
    pause_ns: after a release nobody holds for so long if a group of more than two waits.
        Domains release at the same time, so for that long none of them holds, and a group
        that fits can have the nodes of all.
    """

    enabled: bool = True
    scheme: Scheme = Scheme.HOLD
    release_ns: int | None = RELEASE_NS
    held_cap: float = 1.0
    yield_cap: int | None = None
    raise_by: int = 0
    match_first: bool = True
    pause_ns: int = NS_PER_S

    def __post_init__(self) -> None:
        if not 0.0 <= self.held_cap <= 1.0:
            raise CoschedError(f"held_cap {self.held_cap:g}: want a share, 0 to 1")
        if self.release_ns is not None and self.release_ns < 1:
            raise CoschedError(f"release_ns {self.release_ns}: want 1 or more, or none")
        if self.yield_cap is not None and self.yield_cap < 0:
            raise CoschedError(f"yield_cap {self.yield_cap}: want 0 or more, or none")
        if self.pause_ns < 1:
            raise CoschedError(f"pause_ns {self.pause_ns}: want 1 or more")
        if self.raise_by < 0:
            raise CoschedError(f"raise_by {self.raise_by}: want 0 or more")
