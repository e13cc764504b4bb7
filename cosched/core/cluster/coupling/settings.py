"""Defines the settings of one coupled domain. They are local to the domain."""

from __future__ import annotations

from dataclasses import dataclass

from cosched.core.cluster.coupling.messages import Scheme
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

RELEASE_NS = 20 * 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class CouplingSettings:
    """The settings of section IV.E of the paper, and two more.

    enabled: if False, jobs ignore their mates.
    scheme: hold or yield.
    release_ns: the period after which holding jobs release their nodes, so that other jobs
        can try. None: never; then two holding domains can wait for each other forever.
    held_cap: the share of the nodes that may be held; a job beyond it yields.
    yield_cap: the number of yields after which a job holds; None: no limit.
    raise_by: how many places each yield moves a job forward in later passes.
    match_first: at a release, jobs that can start come before jobs that hold again. The
        paper has no such rule. Without it, each domain can hold another job each time, and
        no job ever meets its mate.
    pause_ns: for this time after a release no job holds, if a group of more than two waits.
        Domains release at the same time. So all their nodes are free for this time, and a
        group that fits can start.
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
