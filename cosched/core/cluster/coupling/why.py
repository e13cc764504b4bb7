"""Explains in one sentence why a job of a group waits, holds nodes or began alone. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cosched.core.cluster.coupling.groups import DomainName
from cosched.core.cluster.coupling.mate_messages import Cause
from cosched.core.cluster.coupling.state import GroupJob, Stage
from cosched.core.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, by the monotonic clock and by the clock on the wall, in ns."""

    now_ns: int  #: ns, monotonic
    wall_ns: int  #: ns since 1970

    def wall(self, at_ns: int) -> int:
        """Returns a time of the monotonic clock as wall time, in ns since 1970."""
        return self.wall_ns + at_ns - self.now_ns


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job waits."""

    text: str  #: a sentence without the time
    #: The wall time at which the reason ends at the latest; None: unknown.
    until_ns: int | None = None
    word: str = ""  #: the event that follows then


_CAUSES = {
    Cause.NODES: "has too few free nodes for it",
    Cause.BUSY: "starts another job",
    Cause.UNSUBMITTED: "does not have its job in the queue yet",
    Cause.DOWN: "does not answer",
    Cause.UNKNOWN: "does not have its group",
    Cause.RECOVERING: "restarts",
    Cause.REFUSED: "refuses its group",
    Cause.FAILED: "could not prepare its job",
}


def reason(member: GroupJob, own: DomainName, moment: Moment) -> Reason:
    """Returns why a job of a group in the domain ``own`` is in its stage."""
    mates = _mates(member, own)
    match member.stage:
        case Stage.UNSUBMITTED:
            return Reason(f"is not in the queue yet; to start with {mates}")
        case Stage.QUEUING:
            return _queuing(member, own, mates, moment)
        case Stage.READY:
            return Reason(f"ready, has {_nodes(member)}, asks {mates}")
        case Stage.HOLDING:
            since = _about(moment.now_ns - member.since_ns)
            text = f"ready, holds {_nodes(member)} since {since} for {mates}"
            return _until(
                text + _because(member, own), member.turn.lease_ns, "released", moment
            )
        case Stage.PREPARING:
            return Reason(f"is prepared on {_nodes(member)}, to start with {mates}")
        case Stage.PREPARED:
            text = f"is prepared, waits for the decision to start with {mates}"
            return _until(text, member.turn.vote_ns, "decided", moment)
        case Stage.RUNNING | Stage.OVER if member.past.alone:
            return Reason(f"started without {mates}: {member.past.alone}")
        case Stage.RUNNING:
            return Reason(f"started with {mates}")
    return Reason("is over")


def sentence(why: Reason, clock: Callable[[int], str]) -> str:
    """Returns the reason with its time; ``clock`` writes a wall time."""
    if why.until_ns is None:
        return why.text
    return f"{why.text}; {why.word} at {clock(why.until_ns)}"


def _queuing(member: GroupJob, own: DomainName, mates: str, moment: Moment) -> Reason:
    if member.dates.promise_ns is not None:
        text = f"goes first, because {mates} started before it"
        return _until(text, member.dates.promise_ns, "promised", moment)
    if member.dates.due_ns is not None and member.dates.due_ns > moment.now_ns:
        return _until(f"starts after {mates}", member.dates.due_ns, "due", moment)
    if not member.past.yields:
        return Reason(f"waits for nodes, to start with {mates}")
    times = "once" if member.past.yields == 1 else f"{member.past.yields} times"
    return Reason(f"yielded {times}, to start with {mates}{_because(member, own)}")


def _until(text: str, at_ns: int | None, word: str, moment: Moment) -> Reason:
    if at_ns is None:
        return Reason(text)
    return Reason(text, moment.wall(at_ns), word)


def _mates(member: GroupJob, own: DomainName) -> str:
    """Returns the mates as ``eureka:812``, or ``GROUP@eureka`` without a known number."""
    names = [
        f"{name}:{member.past.mates[name]}"
        if name in member.past.mates
        else f"{member.group.name}@{name}"
        for name in member.group.members
        if name != own
    ]
    return " and ".join(names)


def _because(member: GroupJob, own: DomainName) -> str:
    if member.past.cause is None or not member.past.cause_at:
        return ""
    if member.past.cause is Cause.UNKNOWN and member.past.cause_at in member.past.mates:
        return ""  # it was announced since then
    where = "this domain" if member.past.cause_at == own else member.past.cause_at
    return f": {where} {_CAUSES[member.past.cause]}"


def _nodes(member: GroupJob) -> str:
    return f"{member.size} node" + ("s" if member.size > 1 else "")


def _about(ns: int) -> str:
    seconds = max(0, ns) // NS_PER_S
    for unit, scale in (("h", 3600), ("min", 60)):
        if seconds >= 2 * scale:
            return f"{seconds // scale} {unit}"
    return f"{seconds} s"
