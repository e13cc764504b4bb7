"""Which job each node ran when, out of the nodes' traces. Pure.

A node's timeline follows from what its machine said, not from what it was told: a job's
span begins and ends with a published status. Times are nanoseconds of the wall clock, the
one that nodes have in common; where it was set back, a node's time stands still meanwhile.

A daemon that ends, and a job that is released, run freely: that is no span, though a
released job stays on the node until its last task has left. Where a daemon was killed the
spans end with its last event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cosched.core.node.messages import (
    Cause,
    Command,
    Event,
    Job,
    PublishStatus,
    Refusal,
    RefuseRequest,
    ShutdownRequested,
    Task,
    TaskRegistered,
)
from cosched.core.trace.roll import Roll
from cosched.observe.timeline.trace import Segment, Trace

#: After these a job is "scheduled" in that nobody is: it runs at the kernel's shares.
_FREE = (Cause.SHUTDOWN, Cause.RELEASED)


@dataclass(frozen=True, slots=True)
class Span:
    """A job was scheduled from ``begin_ns`` to ``end_ns``. lane: 0, or more where others
    were scheduled beside it. cut: it went on when the trace ended."""

    job: Job
    begin_ns: int
    end_ns: int
    cause: Cause
    lane: int = 0
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A trapped message that caused no switch."""

    job: Job
    task: Task
    at_ns: int
    reason: Refusal


@dataclass(slots=True)
class NodeTimeline:
    """One node. ``spans`` and ``refused`` are in order of their beginnings; ``present``
    holds (job, from, to) of each job's stay on the node."""

    node: str
    begin_ns: int
    end_ns: int
    spans: list[Span] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    present: list[tuple[Job, int, int]] = field(default_factory=list)


def timelines(traces: Iterable[Trace]) -> list[NodeTimeline]:
    """The nodes of these traces, by name; traces of one node are taken together."""
    by_node: dict[str, list[Segment]] = {}
    for trace in traces:
        by_node.setdefault(trace.node, []).extend(trace.segments)
    return [
        _Reader(sorted(segments, key=lambda segment: segment.header.wall_ns)).read()
        for _, segments in sorted(by_node.items())
    ]


class _Reader:
    """Follows one node's statuses."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        header = segments[0].header
        self._now_ns = header.wall_ns
        self._line = NodeTimeline(header.node, header.wall_ns, header.wall_ns)
        self._open: dict[Job, Span] = {}
        self._here: dict[Job, int] = {}
        self._roll = Roll({})

    def read(self) -> NodeTimeline:
        for segment in self._segments:
            self._begin(segment)
            for entry in segment.entries:
                self._now_ns = max(self._now_ns, entry.event.wall_ns)
                self._hear(entry.event)
                for command in entry.commands:
                    self._follow(command)
        for job in list(self._open):
            self._close(job, cut=True)
        for job in list(self._here):
            self._leave(job)
        self._line.end_ns = self._now_ns
        self._line.spans.sort(key=lambda span: (span.begin_ns, span.job))
        self._line.present.sort(key=lambda stay: (stay[1], stay[0]))
        return self._line

    def _begin(self, segment: Segment) -> None:
        """A file that goes on, or a daemon that knows less than the last one."""
        jobs = {job.key: job for job in segment.header.state.jobs}
        self._roll = Roll({key: job.tasks for key, job in jobs.items()})
        running = {
            key for key, job in jobs.items() if job.scheduled and job.mode.takes_part
        }
        for key in set(self._open) - running:
            self._close(key)
        for key in set(self._here) - set(jobs):
            self._leave(key)
        self._now_ns = max(self._now_ns, segment.header.wall_ns)
        for key in jobs:
            self._here.setdefault(key, self._now_ns)
        for key in sorted(running - set(self._open)):
            self._run(key, Cause.FIRST)

    def _hear(self, event: Event) -> None:
        """Who comes and who goes."""
        ended = self._roll.take(event)
        if isinstance(event, TaskRegistered):
            self._here.setdefault(event.job, self._now_ns)
        elif isinstance(event, ShutdownRequested):
            for job in list(self._here):
                self._leave(job)
        elif ended is not None:
            self._close(ended)
            self._leave(ended)

    def _follow(self, command: Command) -> None:
        match command:
            case PublishStatus(job, _, scheduled, cause):
                if scheduled and cause not in _FREE:
                    self._run(job, cause)
                else:
                    self._close(job)
            case RefuseRequest():
                self._line.refused.append(
                    Refused(command.job, command.task, self._now_ns, command.reason)
                )

    def _run(self, job: Job, cause: Cause) -> None:
        if job in self._open:
            return
        taken = {span.lane for span in self._open.values()}
        lane = next(n for n in range(len(taken) + 1) if n not in taken)
        self._open[job] = Span(job, self._now_ns, self._now_ns, cause, lane)

    def _close(self, job: Job, *, cut: bool = False) -> None:
        span = self._open.pop(job, None)
        if span is not None and self._now_ns > span.begin_ns:
            self._line.spans.append(
                Span(job, span.begin_ns, self._now_ns, span.cause, span.lane, cut)
            )

    def _leave(self, job: Job) -> None:
        begin_ns = self._here.pop(job, None)
        if begin_ns is not None:
            self._line.present.append((job, begin_ns, self._now_ns))
