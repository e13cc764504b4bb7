"""Defines the settings of one coupled domain. They are local to the domain."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum

from cosched.core.config.kinds import decimal, duration, member_of, or_word, whole
from cosched.core.config.tables import inline, key
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

#: Waits that are shorter would keep a controller busy.
_LEAST_NS = 1_000_000
RELEASE_NS = 20 * 60 * NS_PER_S
#: How often holding jobs release their nodes; None: never.
RELEASE = or_word("never", duration(_LEAST_NS), None)


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
    """How long a domain waits for others, in ns of the monotonic clock."""

    #: After this time a question is sent again.
    resend_ns: int = NS_PER_S
    answer_ns: int = key(
        duration(2 * NS_PER_S),
        5 * NS_PER_S,
        "A domain that is silent for this time is down.",
        live=True,
    )
    #: How often a ``Ping`` goes to a domain that is down.
    probe_ns: int = 10 * NS_PER_S
    #: The most that the preparation of all jobs of a group may take.
    prepare_ns: int = 60 * NS_PER_S
    #: How long a prepared job waits for the decision about its start.
    doubt_ns: int = 300 * NS_PER_S
    retry_ns: int = key(
        duration(_LEAST_NS),
        15 * NS_PER_S,
        "A job that was refused for a reason that passes asks again after this time, or "
        "up to twice as much.",
        name="again",
        live=True,
    )
    forget_ns: int = key(
        duration(_LEAST_NS),
        7 * 86400 * NS_PER_S,
        "How long a domain remembers a job of a group after its end.",
        name="remember",
        live=True,
        in_file=86400 * NS_PER_S,
    )

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
    """The settings of section IV.E of the paper, and some more."""

    #: If False, jobs ignore their mates.
    enabled: bool = True
    scheme: Scheme = key(
        member_of(Scheme), Scheme.HOLD, "How a ready job waits for its mates.", live=True
    )
    #: None: never; then two domains can wait for each other forever.
    release_ns: int | None = key(
        RELEASE,
        RELEASE_NS,
        "Holding jobs release their nodes after this time, all at once, so that other "
        "jobs can try. It is the longest lease of a hold.",
        live=True,
    )
    held_cap: float = key(
        decimal("a share from 0 to 1", lambda value: 0 <= value <= 1),
        1.0,
        "The share of the nodes that may be held; a job beyond it yields.",
        live=True,
    )
    #: None: no limit.
    yield_cap: int | None = key(
        whole(0), None, "The number of yields after which a job holds.", live=True
    )
    raise_by: int = key(
        whole(0),
        0,
        "How many places each yield moves a job forward in later passes.",
        live=True,
    )
    #: While a job of an older group waits, jobs may start on released nodes, but not hold.
    #: The paper has no such rule. Without it, each domain can hold another job each time,
    #: and no job ever meets its mate.
    older_first: bool = True
    #: How long that rule is in force after a release.
    pause_ns: int = key(
        duration(_LEAST_NS),
        NS_PER_S,
        "How long a job comes last in the queue after its hold was ended.",
        name="release_wait",
        live=True,
        in_file=60 * NS_PER_S,
    )
    #: A job that has yielded gets no nodes for this time, or up to twice as long, unless a
    #: mate asks for it. If the cause passes without an event in the queue, it rests until
    #: it asks again.
    rest_ns: int = 0
    when_down: WhenDown = key(
        member_of(WhenDown),
        WhenDown.START,
        "The choice while a mate's domain does not answer.",
        live=True,
    )
    down_hold_ns: int = key(
        duration(), 600 * NS_PER_S, 'How long when_down = "hold" waits.', live=True
    )
    #: 0: it starts at once (the paper).
    unknown_ns: int = key(
        duration(),
        0,
        "How long a ready job waits for a mate that its domain does not have.",
        live=True,
        in_file=600 * NS_PER_S,
    )
    patience: Patience = inline(Patience)

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
