"""Measures how well the nodes of a job agree. Pure; times are in nanoseconds.

Finds when a job ran on all its nodes, when only on some, and how long a node took to follow
another. A job counts on the nodes where it has tasks at that moment. Jobs on one node are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cosched.core.node.messages import Cause, Job
from cosched.observe.timeline.overlap import Interval
from cosched.observe.timeline.timeline import NodeTimeline, Span

#: A moment in ns. The number of a job's nodes changes then by the second member, and the
#: number of nodes that run it by the third.
_Edge = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Agreement:
    """One job over all its nodes, while it was on more than one."""

    job: Job  #: the job's key
    nodes: tuple[str, ...]  #: the nodes that it was on
    #: When it was scheduled on all of them, in ns since 1970.
    together: tuple[Interval, ...]
    #: When it was scheduled on some, but not on all, in ns since 1970.
    apart: tuple[Interval, ...]

    @property
    def fraction(self) -> float | None:
        """The time on all nodes, as a fraction of the time on any; None if it never ran."""
        all_ns, some_ns = length_ns(self.together), length_ns(self.apart)
        return all_ns / (all_ns + some_ns) if all_ns + some_ns else None


@dataclass(frozen=True, slots=True)
class Follow:
    """A node's switch to a job that already ran on another node."""

    node: str  #: the node that switched
    span: Span  #: the time on this node that began with the switch
    after_ns: int  #: how long after that node it switched, in ns
    leader: str | None  #: the other node; None if the job ran on several
    leader_span: Span  #: the time on the node that ran the job first

    @property
    def pulled(self) -> bool:
        return self.span.cause is Cause.PULLED


def length_ns(intervals: Sequence[Interval]) -> int:
    """Returns the sum of the lengths."""
    return sum(end - begin for begin, end in intervals)


def agreements(nodes: Sequence[NodeTimeline]) -> list[Agreement]:
    """Returns the agreement of each job on more than one node, by key."""
    names: dict[Job, dict[str, None]] = {}
    edges: dict[Job, list[_Edge]] = {}
    for node in nodes:
        for job, begin, end in node.present:
            names.setdefault(job, {})[node.node] = None
            edges.setdefault(job, []).extend(((begin, 1, 0), (end, -1, 0)))
        for span in node.spans:
            moments = ((span.begin_ns, 0, 1), (span.end_ns, 0, -1))
            edges.setdefault(span.job, []).extend(moments)
    return [
        _agreement(job, tuple(own), edges[job])
        for job, own in sorted(names.items())
        if len(own) > 1
    ]


def _agreement(job: Job, names: tuple[str, ...], edges: Sequence[_Edge]) -> Agreement:
    together: list[Interval] = []
    apart: list[Interval] = []
    here = running = before_ns = 0
    for at_ns, arrived, started in sorted(edges):
        if at_ns > before_ns and here > 1 and running:
            _extend(together if running == here else apart, before_ns, at_ns)
        here += arrived
        running += started
        before_ns = at_ns
    return Agreement(job, names, tuple(together), tuple(apart))


def _extend(intervals: list[Interval], begin_ns: int, end_ns: int) -> None:
    if intervals and intervals[-1][1] == begin_ns:
        begin_ns = intervals.pop()[0]
    intervals.append((begin_ns, end_ns))


def follows(nodes: Sequence[NodeTimeline]) -> list[Follow]:
    """Returns each switch to a job that another node already ran."""
    by_job: dict[Job, list[tuple[str, Span]]] = {}
    for timeline in nodes:
        for span in timeline.spans:
            by_job.setdefault(span.job, []).append((timeline.node, span))
    found: list[Follow] = []
    for spans in by_job.values():
        spans.sort(key=lambda item: (item[1].begin_ns, item[0]))
        active: list[tuple[str, Span]] = []
        for node, span in spans:
            active = [item for item in active if item[1].end_ns > span.begin_ns]
            ahead = [item for item in active if item[1].begin_ns < span.begin_ns]
            if ahead:
                leader, leading = ahead[0]
                after_ns = span.begin_ns - leading.begin_ns
                alone = leader if len(ahead) == 1 else None
                found.append(Follow(node, span, after_ns, alone, leading))
            active.append((node, span))
    return sorted(found, key=lambda follow: (follow.span.begin_ns, follow.node))
