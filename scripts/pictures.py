"""Draws the pictures of docs/how-it-works.md into docs/figures.

Two machines of ``cosched.core.node.machine``, driven in virtual time, choose the job that
runs under cosched, one a node. Only the messages, and what the kernel alone would
do, are made up here.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import AlarmRang as Alarm
from cosched.core.node.messages import (
    Command,
    Event,
    MessageTrapped,
    OrderTimer,
    PublishStatus,
    Refusal,
    RefuseRequest,
    SetAlarm,
    SliceEnded,
    TaskRegistered,
)
from cosched.core.node.settings import Settings
from cosched.core.units import NS_PER_MS

FIGURES = Path(__file__).parent.parent / "docs/figures"
COLOURS = {"A": "#2f6fb5", "B": "#e09b3d"}
CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
PULLED = "trapped again:\nthe switch is pulled"
GREY = "#555555"
TASKS = {"A": 1, "B": 2}
KERNEL_TURN_MS = 40

Span = tuple[str, float, float]  #: job, from and to in ms


class Node:
    """A node of two jobs in virtual time; what it did is kept for drawing."""

    def __init__(self, settings: Settings) -> None:
        self.machine = NodeScheduler(settings)
        self.now_ms = 0.0
        self.job = ""
        self.since_ms = 0.0
        self.deadline_ms: float | None = None
        self.alarm_ms: float | None = None
        self.spans: list[Span] = []
        self.refused: list[RefuseRequest] = []
        self.epochs: dict[str, int] = {}

    def tell(self, event: Event) -> None:
        """Hands the machine an event and does what it says."""
        self.now_ms = event.now_ns / NS_PER_MS
        for command in self.machine.handle(event):
            self._do(command)

    def _do(self, command: Command) -> None:
        match command:
            case PublishStatus():
                self.epochs[command.job] = command.epoch
                if command.scheduled:
                    self.close(self.now_ms)
                    self.job, self.since_ms = command.job, self.now_ms
            case RefuseRequest():
                self.refused.append(command)
            case OrderTimer():
                self.deadline_ms = None if command.idle else command.deadline_ns / NS_PER_MS
            case SetAlarm():
                self.alarm_ms = command.at_ns / NS_PER_MS

    def close(self, at_ms: float) -> None:
        """Ends the span of the job that runs."""
        if self.job and at_ms > self.since_ms:
            self.spans.append((self.job, self.since_ms, at_ms))

    def advance(self, to_ms: float) -> None:
        """Lets alarms and slices come that are due by then."""
        while due := [at for at in (self.deadline_ms, self.alarm_ms) if at and at <= to_ms]:
            at = min(due)
            if at == self.alarm_ms:
                self.alarm_ms = None
                self.tell(Alarm(now_ns=_ns(at), wall_ns=_ns(at)))
            else:
                self.deadline_ms = None
                self.tell(SliceEnded(now_ns=_ns(at), wall_ns=_ns(at)))

    def trap(self, job: str, at_ms: float) -> bool:
        """A message for an unscheduled job; whether it pulled a switch."""
        before, now_ns = self.job, _ns(at_ms)
        self.advance(at_ms)
        epoch = self.epochs[job]
        task = TASKS[job]
        self.tell(
            MessageTrapped(now_ns=now_ns, wall_ns=now_ns, job=job, task=task, epoch=epoch)
        )
        return self.job != before


def _ns(ms: float) -> int:
    return round(ms * NS_PER_MS)


def begin_node(first: str, second: str, settings: Settings) -> Node:
    """A node where one job comes a moment before the other."""
    node = Node(settings)
    for job, at_ns in ((first, 0), (second, NS_PER_MS)):
        cpus = frozenset({0})
        registered = TaskRegistered(
            now_ns=at_ns, wall_ns=at_ns, job=job, task=TASKS[job], cpus=cpus
        )
        node.tell(registered)
    return node


def kernel_spans(until_ms: float, chance: random.Random) -> list[Span]:
    """One node under the kernel alone: turns of uneven length, whenever they come."""
    spans: list[Span] = []
    at, job = 0.0, chance.choice("AB")
    while at < until_ms:
        end = min(until_ms, at + KERNEL_TURN_MS * chance.uniform(0.5, 1.5))
        spans.append((job, at, end))
        at, job = end, "B" if job == "A" else "A"
    return spans


def together(one: Sequence[Span], other: Sequence[Span]) -> float:
    """The fraction of the time in which both run the same job."""
    common = sum(
        max(0.0, min(end, other_end) - max(begin, other_begin))
        for job, begin, end in one
        for other_job, other_begin, other_end in other
        if job == other_job
    )
    return common / (one[-1][2] - one[0][1])


def draw_node(axes: Axes, row: float, spans: Iterable[Span], label: str) -> None:
    """One node's bar: which job ran when."""
    for job, begin, end in spans:
        length = end - begin
        colour = COLOURS[job]
        axes.broken_barh(
            [(begin, length)], (row, 0.8), facecolors=colour, edgecolor="white"
        )
        if length > 45:
            middle = begin + length / 2
            axes.text(middle, row + 0.4, job, color="white", weight="bold", **CENTRED)
    beside = axes.get_yaxis_transform()
    axes.text(-0.01, row + 0.4, label, ha="right", va="center", transform=beside)


def bare(axes: Axes, title: str) -> None:
    """Takes away what a picture of bars does not need."""
    axes.set_yticks([])
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)


def coscheduling() -> Figure:
    """Two nodes, two jobs: the kernel alone above, aligned slices below."""
    until = 1200.0
    chance = random.Random(7)
    alone = [kernel_spans(until, chance), kernel_spans(until, chance)]
    settings = Settings().changed({"slice": "300ms", "gmet": "30ms", "align": "off"})
    nodes = [begin_node("A", "B", settings) for _ in range(2)]
    for node in nodes:
        node.advance(until)
        node.close(until)
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    ours = [node.spans for node in nodes]
    for axes, rows, who in ((above, alone, "kernel alone"), (below, ours, "cosched")):
        for row, spans in enumerate(rows):
            draw_node(axes, 1 - row, spans, f"node {row + 1}")
        bare(
            axes, f"{who}: the same job on both nodes for {together(*rows):.0%} of the time"
        )
    below.set_xlabel("ms")
    return figure


def pulled_switch() -> Figure:
    """Node 2 has just come to B; of A's messages from node 1 one is early."""
    until, gmet, came = 600.0, 100.0, 200.0
    settings = Settings().changed({"slice": "1s", "gmet": f"{gmet:g}ms", "align": "off"})
    node1, node2 = begin_node("A", "B", settings), begin_node("B", "A", settings)
    assert node2.trap("A", came - gmet)
    assert node2.trap("B", came)
    early, late = came + 40.0, came + gmet + 10.0
    assert not node2.trap("A", early)
    assert [refusal.reason for refusal in node2.refused] == [Refusal.GMET]
    left_ms = came + gmet - early
    assert node2.trap("A", late)
    for node in (node1, node2):
        node.close(until)
    figure = Figure(figsize=(8, 2.9), layout="constrained")
    axes = figure.subplots()
    draw_node(axes, 1.6, node1.spans, "node 1")
    draw_node(axes, 0.0, node2.spans, "node 2")
    refused = f"trapped: refused,\nGMET has {left_ms:g} ms left"
    for at, side, words in ((early, "right", refused), (late, "left", PULLED)):
        arrow = {"arrowstyle": "-|>", "color": "black", "lw": 1.4}
        axes.annotate("", xy=(at, 0.8), xytext=(at - 12.0, 1.6), arrowprops=arrow)
        axes.plot([at, at], [0.0, -0.35], color="black", lw=0.8)
        axes.text(at, -0.7, words, ha=side, va="center", fontsize=9)
    between = {"arrowstyle": "<->", "color": GREY}
    axes.annotate("", xy=(came, 1.35), xytext=(came + gmet, 1.35), arrowprops=between)
    axes.text(came - 6, 1.35, "B's GMET", ha="right", va="center", fontsize=9, color=GREY)
    axes.set_ylim(-1.1, 2.5)
    axes.set_xlim(0, until)
    bare(axes, "a message from a scheduled peer pulls a switch")
    axes.set_xlabel("ms")
    return figure


def main() -> None:
    """Draws all of them."""
    mpl.rcParams["svg.hashsalt"] = "cosched"
    for draw in (coscheduling, pulled_switch):
        path = FIGURES / f"{draw.__name__}.svg"
        draw().savefig(path, facecolor="white", metadata={"Date": None})
        print(path.relative_to(FIGURES.parent.parent))


if __name__ == "__main__":
    main()
