"""Defines the settings of one coupled domain. They are local to the domain."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

RELEASE_NS = 20 * 60 * NS_PER_S


class Scheme(str, Enum):
    """The choice of a ready job while its mates are not ready."""

    HOLD = "hold"
    YIELD = "yield"


class WhenDown(str, Enum):
    """The choice of a ready job while a mate's domain does not answer."""

    START = "start"  #: without that mate, at once (the paper)
    HOLD = "hold"  #: it holds for a time, and then starts without that mate
    YIELD = "yield"  #: it never starts without that mate


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a domain waits for others. All times are ns of the monotonic clock.

    resend_ns: after this time a question is sent again. answer_ns: a domain that is silent
    for so long is down. probe_ns: how often a domain that is down is asked whether it is
    back. prepare_ns: the most that the preparation of all jobs of a group may take.
    doubt_ns: how long a prepared job waits for the decision about its start. retry_ns: a
    job that was refused for a reason that passes asks again after this time, or up to twice
    as much. forget_ns: how long a domain remembers a job of a group after its end.
    """

    resend_ns: int = NS_PER_S
    answer_ns: int = 5 * NS_PER_S
    probe_ns: int = 10 * NS_PER_S
    prepare_ns: int = 60 * NS_PER_S
    doubt_ns: int = 300 * NS_PER_S
    retry_ns: int = 15 * NS_PER_S
    forget_ns: int = 7 * 86400 * NS_PER_S

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) < 1:
                raise CoschedError(
                    f"{each.name} {getattr(self, each.name)}: want 1 or more"
                )
        if self.answer_ns < 2 * self.resend_ns:
            raise CoschedError(
                f"answer_ns {self.answer_ns}: want at least twice resend_ns, "
                f"{self.resend_ns}; one lost message must not mean that a domain is down"
            )
        if self.doubt_ns < 4 * self.prepare_ns:
            raise CoschedError(
                f"doubt_ns {self.doubt_ns}: want at least four times prepare_ns, "
                f"{self.prepare_ns}; a decision must reach all jobs in time"
            )


@dataclass(frozen=True, slots=True)
class CouplingSettings:
    """The settings of section IV.E of the paper, and some more.

    enabled: if False, jobs ignore their mates.
    scheme: hold or yield.
    release_ns: the period after which holding jobs release their nodes, all at once, so
        that other jobs can try. It is the longest lease of a hold. None: never; then two
        domains can wait for each other forever.
    held_cap: the share of the nodes that may be held; a job beyond it yields.
    yield_cap: the number of yields after which a job holds; None: no limit.
    raise_by: how many places each yield moves a job forward in later passes.
    older_first: while a job of an older group waits, jobs may start on released nodes, but
        not hold. The paper has no such rule. Without it, each domain can hold another job
        each time, and no job ever meets its mate.
    pause_ns: how long that rule is in force after a release.
    rest_ns: a job that has yielded gets no nodes for this time, or up to twice as long,
        unless a mate asks for it. If the cause passes without an event in the queue, it
        rests until it asks again.
    when_down: the choice while a mate's domain does not answer. down_hold_ns: how long
        ``WhenDown.HOLD`` waits.
    unknown_ns: how long a ready job waits for a mate that its domain does not have. 0: it
        starts at once (the paper).
    patience: how long to wait for other domains.
    """

    enabled: bool = True
    scheme: Scheme = Scheme.HOLD
    release_ns: int | None = RELEASE_NS
    held_cap: float = 1.0
    yield_cap: int | None = None
    raise_by: int = 0
    older_first: bool = True
    pause_ns: int = NS_PER_S
    rest_ns: int = 0
    when_down: WhenDown = WhenDown.START
    down_hold_ns: int = 600 * NS_PER_S
    unknown_ns: int = 0
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        if not 0.0 <= self.held_cap <= 1.0:
            raise CoschedError(f"held_cap {self.held_cap:g}: want a share, 0 to 1")
        if self.release_ns is not None and self.release_ns < 1:
            raise CoschedError(f"release_ns {self.release_ns}: want 1 or more, or none")
        if self.yield_cap is not None and self.yield_cap < 0:
            raise CoschedError(f"yield_cap {self.yield_cap}: want 0 or more, or none")
        if self.pause_ns < 1:
            raise CoschedError(f"pause_ns {self.pause_ns}: want 1 or more")
        for name in ("raise_by", "rest_ns", "down_hold_ns", "unknown_ns"):
            if getattr(self, name) < 0:
                raise CoschedError(f"{name} {getattr(self, name)}: want 0 or more")
