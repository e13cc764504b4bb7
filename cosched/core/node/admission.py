"""Memory before slicing: which jobs a node lets begin, so that none of them pages.

Jobs that take turns on a CPU are all in memory. A job whose memory does not fit beside that
of the jobs already there waits before it begins, when it holds next to nothing, and in the
order of arrival: nobody overtakes.

A job's *need* is what it declared or what it was measured to have, whichever is more. It
fits if its need is at most what is free:

    free = usable - needs of the jobs admitted - what the others that wait have by now

While the node is under pressure (the kernel's PSI) nothing fits. An empty node lets
anybody begin. A job that needs more than the node has is refused: waiting would not help.

No job waits for ever: after ``patience_ns`` it begins all the same. That also ends the wait
of two jobs each of which has been let in on one node and waits for the other on the next;
the nodes do not talk to each other, so neither can know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from cosched.core.units import format_bytes

#: Some task stood still for want of memory in so much of the last ten seconds.
PRESSURE_PERCENT = 20.0


class Verdict(str, Enum):
    """What becomes of a job at the door."""

    ADMITTED = "admitted"
    OVERDUE = "overdue"  # admitted though it does not fit: it has waited long enough
    WAITS = "waits"
    REFUSED = "refused"  # more than the node has


@dataclass(frozen=True, slots=True)
class Need:
    """What a job wants of the node's memory, bytes. declared: 0 if it does not say."""

    declared_bytes: int
    measured_bytes: int

    @property
    def bytes(self) -> int:
        return max(self.declared_bytes, self.measured_bytes)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job at the door, and since when it has been there."""

    job: str
    need: Need
    since_ns: int


@dataclass(frozen=True, slots=True)
class Node:
    """What a node has.

    total_bytes: the most that jobs could have between them, were they alone.
    usable_bytes: what they can have now, what they have already included.
    pressure_percent: PSI, "some" of the last ten seconds; 0 where the kernel has none.
    patience_ns: how long a job waits at most.
    """

    total_bytes: int
    usable_bytes: int
    pressure_percent: float
    patience_ns: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on one candidate; ``reason`` is for people."""

    job: str
    verdict: Verdict
    reason: str


def free_bytes(node: Node, admitted: Iterable[Need]) -> int:
    """What is left for newcomers; never negative."""
    return max(0, node.usable_bytes - sum(need.bytes for need in admitted))


def judge(
    node: Node, admitted: Sequence[Need], waiting: Sequence[Candidate], now_ns: int
) -> tuple[Decision, ...]:
    """A decision for each job that waits, in their order, that of arrival."""
    inside = list(admitted)
    decisions: list[Decision] = []
    first: Candidate | None = None  # who waits already and lets nobody pass
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
    inside: Sequence[Need],
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
    if node.pressure_percent >= PRESSURE_PERCENT:
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
