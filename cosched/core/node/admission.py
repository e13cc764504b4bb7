"""Decides which jobs may begin on a node, so that its jobs fit into memory and none pages.

Jobs that take turns on a CPU are all in memory. A job that does not fit beside the admitted
jobs waits before it begins, while it holds nearly no memory. Jobs wait in the order of
their arrival, and no job overtakes another.

A job's *memory need* is the memory that it declared or uses, whichever is more. The job
fits if its need is at most the free memory:

    free = usable - needs of the admitted jobs - memory that other waiting jobs use now

While the node is under memory pressure (the kernel's PSI) no job fits. On an empty node any
job begins. A job that needs more than the node has is refused, because it would never fit.

After ``patience_ns`` a job begins in any case. This also ends the wait of two jobs that
were each admitted on one node and wait for each other on the next one. The nodes exchange
no messages, so neither node can detect this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from msgspec import Struct

from cosched.core.units import format_bytes

#: Jobs wait to begin if tasks waited for memory in this part of the last 10 s.
WAIT_PRESSURE_PERCENT = 20.0


class Verdict(str, Enum):
    """The decision on a job that wants to begin."""

    ADMITTED = "admitted"
    OVERDUE = "overdue"  # admitted although it does not fit: it has waited long enough
    WAITS = "waits"
    REFUSED = "refused"  # it needs more than the node has


class MemoryNeed(Struct, frozen=True):
    """A job's memory need: the memory that it declared or uses, whichever is more."""

    declared_bytes: int  #: the memory that it declared; 0: none
    measured_bytes: int  #: the memory that its tasks hold now

    @property
    def bytes(self) -> int:
        return max(self.declared_bytes, self.measured_bytes)


class Candidate(Struct, frozen=True):
    """A job that wants to begin."""

    job: str  #: its name
    need: MemoryNeed  #: its memory need
    since_ns: int  #: the beginning of its wait, by the monotonic clock


class Node(Struct, frozen=True):
    """The memory of a node."""

    total_bytes: int  #: the memory of all jobs together if nothing else used the node
    #: The memory of all jobs together as things are, with what they use now.
    usable_bytes: int
    #: PSI, "some" of the last ten seconds; 0: also if the kernel has no PSI.
    pressure_percent: float
    patience_ns: int  #: the longest wait of a job


class Decision(Struct, frozen=True):
    """The verdict on one candidate."""

    job: str  #: its name
    verdict: Verdict  #: whether it begins, waits or is refused
    reason: str  #: the reason, a text for users


def free_bytes(node: Node, admitted: Iterable[MemoryNeed]) -> int:
    """Returns the memory that is left; never negative."""
    return max(0, node.usable_bytes - sum(need.bytes for need in admitted))


def judge(
    node: Node, admitted: Sequence[MemoryNeed], waiting: Sequence[Candidate], now_ns: int
) -> tuple[Decision, ...]:
    """Returns a decision for each waiting job, in the order of arrival."""
    inside = list(admitted)
    decisions: list[Decision] = []
    first: Candidate | None = None  # no later job may pass it
    for number, candidate in enumerate(waiting):
        if candidate.need.bytes > node.total_bytes:
            decisions.append(
                Decision(candidate.job, Verdict.REFUSED, _too_big(candidate, node))
            )
            continue
        others = sum(
            other.need.measured_bytes
            for index, other in enumerate(waiting)
            if index > number and other.need.bytes <= node.total_bytes
        )
        decision = _judge_one(node, inside, candidate, others, first, now_ns)
        decisions.append(decision)
        if decision.verdict is Verdict.WAITS:
            first = first or candidate
        else:
            inside.append(candidate.need)
    return tuple(decisions)


def _judge_one(
    node: Node,
    inside: Sequence[MemoryNeed],
    candidate: Candidate,
    others_bytes: int,
    first: Candidate | None,
    now_ns: int,
) -> Decision:
    job, need = candidate.job, candidate.need.bytes
    if now_ns - candidate.since_ns >= node.patience_ns:
        return Decision(job, Verdict.OVERDUE, "memory: it waited for as long as allowed")
    if first is not None:
        return Decision(job, Verdict.WAITS, f"memory: {first.job} came first and waits")
    if not inside:
        return Decision(job, Verdict.ADMITTED, "")
    if node.pressure_percent >= WAIT_PRESSURE_PERCENT:
        return Decision(
            job, Verdict.WAITS, f"memory: pressure {node.pressure_percent:.0f}%"
        )
    free = max(0, free_bytes(node, inside) - others_bytes)
    if need <= free:
        return Decision(job, Verdict.ADMITTED, "")
    return Decision(
        job,
        Verdict.WAITS,
        f"memory: needs {format_bytes(need)}, {format_bytes(free)} free",
    )


def _too_big(candidate: Candidate, node: Node) -> str:
    return (
        f"memory: needs {format_bytes(candidate.need.bytes)}, "
        f"this node has {format_bytes(node.total_bytes)}"
    )
