"""Makes nodes and traces for the tests of timelines, agreement and reports."""

from __future__ import annotations

from pathlib import Path

from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    Cause,
    MessageTrapped,
    PublishStatus,
    SliceEnded,
    TaskExited,
    TaskRegistered,
)
from cosched.core.node.settings import Settings
from cosched.core.trace.codec import VERSION, Header, Step, encode
from cosched.observe.timeline.timeline import NodeTimeline, Span
from cosched.observe.timeline.trace import read_trace

MS = 1_000_000
WALL_NS = 1_795_000_000 * 1_000_000_000


class TracedNode:
    """A machine that records its events and commands as a trace. Times are in ms."""

    def __init__(self, name: str, **settings: str) -> None:
        values = {"slice": "100ms", "gmet": "10ms", "align": "off", **settings}
        self.machine = NodeScheduler(Settings().changed(values))
        self.lines: list[Header | Step] = []
        self.name = name
        self.epochs: dict[str, int] = {}
        self.begin(0)

    def begin(self, at: float) -> None:
        """Starts a new file of the same daemon."""
        now_ns = round(at * MS)
        self.lines.append(
            Header(VERSION, self.name, now_ns, WALL_NS + now_ns, self.machine.snapshot())
        )

    def tell(self, kind, at: float, **values) -> None:
        now_ns = round(at * MS)
        event = kind(now_ns=now_ns, wall_ns=WALL_NS + now_ns, **values)
        commands = self.machine.handle(event)
        for command in commands:
            if isinstance(command, PublishStatus):
                self.epochs[command.job] = command.epoch
        self.lines.append((event, commands))

    def register(self, at: float, job: str, task: int, *cpus: int) -> None:
        self.tell(TaskRegistered, at, job=job, task=task, cpus=frozenset(cpus or (0,)))

    def exit(self, at: float, job: str, task: int) -> None:
        self.tell(TaskExited, at, job=job, task=task)

    def end_slice(self, at: float) -> None:
        self.tell(SliceEnded, at)

    def trap(self, at: float, job: str, task: int) -> None:
        epoch = self.epochs[job]
        self.tell(MessageTrapped, at, job=job, task=task, epoch=epoch)

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.name}.jsonl"
        path.write_bytes(encode(self.lines))
        return path

    def trace(self, folder: Path):
        return read_trace([self.write(folder)])


def two_nodes() -> list[TracedNode]:
    """Runs a and b on both nodes; a message pulls b on n2, 30 ms after its start on n1."""
    first, second = TracedNode("n1"), TracedNode("n2")
    for node in (first, second):
        node.register(0, "0.a", 1)
        node.register(5, "0.b", 2)
    first.end_slice(100)
    second.trap(105, "0.a", 1)
    second.trap(130, "0.b", 2)
    for node in (first, second):
        node.exit(180, "0.b", 2)
        node.exit(200, "0.a", 1)
    return [first, second]


def line(node: str, spans, present) -> NodeTimeline:
    """Makes a timeline of (job, begin, end[, cause]) and (job, from, to)."""
    made = [
        Span(job, begin, end, *(cause or [Cause.SLICE]))
        for job, begin, end, *cause in spans
    ]
    ends = [end for _, _, end in present]
    begins = [begin for _, begin, _ in present]
    timeline = NodeTimeline(node, min(begins), max(ends))
    timeline.spans, timeline.present = made, list(present)
    return timeline
