"""Reads from traces which job each node ran, and when. Pure.

A span of a job begins and ends with a published status. Times are in nanoseconds of the
wall clock, which the nodes have in common. If the clock was set back, a node's time stands
still until the clock has caught up.

A released job has no spans, but it stays on the node until its last task has left. If a
daemon was killed, the spans end with its last event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from cosched.core.node.messages import (
    Cause,
    Job,
    Refusal,
    RefuseRequest,
    Task,
    TaskRegistered,
)
from cosched.core.trace.account import Account, Accounts, Moment, Standing
from cosched.observe.timeline.trace import Segment, Trace


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a job was scheduled on a node."""

    job: Job  #: the job's key
    begin_ns: int  #: its begin, by the wall clock in ns since 1970
    end_ns: int  #: its end, by the wall clock in ns since 1970
    cause: Cause  #: why the node switched to the job
    lane: int = 0  #: 0, or more if other jobs were scheduled beside it
    cut: bool = False  #: the job still ran when the trace ended


@dataclass(frozen=True, slots=True)
class Refused:
    """A trapped message that caused no switch."""

    job: Job  #: the key of the job whose message it was
    task: Task  #: the process id of the task that asked for the switch
    at_ns: int  #: when it was refused, by the wall clock in ns since 1970
    reason: Refusal  #: why there was no switch


@dataclass(slots=True)
class NodeTimeline:
    """One node."""

    node: str  #: its host name
    begin_ns: int  #: the begin of its trace, in ns since 1970
    end_ns: int  #: the end of its trace, in ns since 1970
    #: The times of its jobs, in the order of their start.
    spans: list[Span] = field(default_factory=list)
    #: The refused messages, in their order.
    refused: list[Refused] = field(default_factory=list)
    #: (job, from, to) for each stay of a job on the node, in ns since 1970.
    present: list[tuple[Job, int, int]] = field(default_factory=list)
    #: The CPUs of each part of a node on which jobs run side by side, the lowest first;
    #: empty: no two jobs had CPUs of their own. The lanes of these parts come first.
    parts: list[frozenset[int]] = field(default_factory=list)


def timelines(traces: Iterable[Trace]) -> list[NodeTimeline]:
    """Returns a timeline for each node, by name; joins the traces of one node."""
    by_node: dict[str, list[Segment]] = {}
    for trace in traces:
        by_node.setdefault(trace.node, []).extend(trace.segments)
    return [
        _Reader(sorted(segments, key=lambda segment: segment.header.wall_ns)).read()
        for _, segments in sorted(by_node.items())
    ]


class _Reader:
    """Follows the accounts of one node's jobs."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        header = segments[0].header
        self._line = NodeTimeline(header.node, header.wall_ns, header.wall_ns)
        self._accounts = Accounts(intervals_max=None)
        self._ended: list[Account] = []
        self._cpus: dict[Job, frozenset[int]] = {}

    def read(self) -> NodeTimeline:
        wall_ns = self._line.begin_ns
        for segment in self._segments:
            header = segment.header
            wall_ns = max(wall_ns, header.wall_ns)
            begin = Moment(header.now_ns, wall_ns)
            self._ended += self._accounts.resume(header.state, begin)
            for entry in segment.entries:
                wall_ns = max(wall_ns, entry.event.wall_ns)
                event = entry.event
                if isinstance(event, TaskRegistered):
                    before = self._cpus.get(event.job, frozenset())
                    self._cpus[event.job] = before | event.cpus
                if event.wall_ns < wall_ns:
                    event = msgspec.structs.replace(event, wall_ns=wall_ns)
                self._ended += self._accounts.take(event, entry.commands)
                self._line.refused += [
                    Refused(command.job, command.task, wall_ns, command.reason)
                    for command in entry.commands
                    if isinstance(command, RefuseRequest)
                ]
        self._line.end_ns = wall_ns
        running = [
            account.job
            for account in self._accounts.open.values()
            if account.standing is Standing.SCHEDULED
        ]
        last = self._accounts.close()
        self._line.parts = parts = _parts_of(set(self._cpus.values()))
        lanes = {
            job: parts.index(cpus) for job, cpus in self._cpus.items() if cpus in parts
        }
        spans = (
            span
            for account in (*self._ended, *last)
            for span in _spans(account, cut=account in last and account.job in running)
        )
        self._line.spans = _in_lanes(spans, lanes)
        self._line.present = sorted(
            (
                (account.job, account.began.wall_ns, account.since.wall_ns)
                for account in (*self._ended, *last)
            ),
            key=lambda stay: (stay[1], stay[0]),
        )
        return self._line


def _spans(account: Account, *, cut: bool) -> Iterator[Span]:
    """Yields the spans of a job; the last one was ``cut`` where the trace ends."""
    for number, (begin, end, cause) in enumerate(account.intervals, 1):
        if end.wall_ns > begin.wall_ns:
            last = cut and number == len(account.intervals)
            yield Span(account.job, begin.wall_ns, end.wall_ns, cause, 0, last)


def _parts_of(sets: Collection[frozenset[int]]) -> list[frozenset[int]]:
    """Returns the smallest sets of CPUs that jobs had; none if two of them overlap, or if
    there is one only."""
    least = [each for each in sets if not any(other < each for other in sets)]
    apart = sum(map(len, least)) == len(frozenset().union(*least))
    return sorted(least, key=min) if len(least) > 1 and apart and all(least) else []


def _in_lanes(spans: Iterable[Span], lanes: Mapping[Job, int]) -> list[Span]:
    """Returns the spans in order, each in the lane of its job's part of the node, or in the
    lowest lane that is free. lanes: the lanes of jobs on parts."""
    found: list[Span] = []
    ends_ns: list[int] = []  # the end of the last span in each lane
    for span in sorted(spans, key=lambda span: (span.begin_ns, span.job)):
        own = lanes.get(span.job)
        ends_ns += [0] * (0 if own is None else own + 1 - len(ends_ns))
        free = [n for n, end_ns in enumerate(ends_ns) if end_ns <= span.begin_ns]
        lane = own if own in free else next(iter(free), len(ends_ns))
        ends_ns[lane : lane + 1] = [span.end_ns]
        found.append(replace(span, lane=lane))
    return found
