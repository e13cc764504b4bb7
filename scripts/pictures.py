"""Draws the pictures of README and docs/how-it-works.md into docs/figures.

Two machines of ``cosched.core.node.machine``, driven in virtual time, choose the job that
runs under cosched, one machine for each node. The messages and the kernel's turns are made
up. The figures of ``pays`` come from docs/results/yoo_fleet_openmpi.txt.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

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

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs/figures"
FLEET = ROOT / "docs/results/yoo_fleet_openmpi.txt"
COLOURS = {"A": "#2f6fb5", "B": "#e09b3d"}
CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
PULLED = "trapped again:\nthe switch is pulled"
GREY = "#555555"
NODE_BOX: dict[str, Any] = {
    "boxstyle": "round,pad=0,rounding_size=0.2",
    "ec": GREY,
    "fc": "#f2f5f9",
}
TASKS = {"A": 1, "B": 2}
KERNEL_TURN_MS = 40

Span = tuple[str, float, float]  #: job, from and to in ms


class Node:
    """A node with two jobs in virtual time, and the spans in which it ran each job."""

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

    def handle(self, event: Event) -> None:
        """Gives the machine an event and carries out its commands."""
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
        """Handles the alarms and slice ends that are due by then."""
        while due := [at for at in (self.deadline_ms, self.alarm_ms) if at and at <= to_ms]:
            at = min(due)
            if at == self.alarm_ms:
                self.alarm_ms = None
                self.handle(Alarm(now_ns=_ns(at), wall_ns=_ns(at)))
            else:
                self.deadline_ms = None
                self.handle(SliceEnded(now_ns=_ns(at), wall_ns=_ns(at)))

    def trap(self, job: str, at_ms: float) -> bool:
        """Traps a message for an unscheduled job; returns whether it pulled a switch."""
        before, now_ns = self.job, _ns(at_ms)
        self.advance(at_ms)
        epoch = self.epochs[job]
        task = TASKS[job]
        self.handle(
            MessageTrapped(now_ns=now_ns, wall_ns=now_ns, job=job, task=task, epoch=epoch)
        )
        return self.job != before


def _ns(ms: float) -> int:
    return round(ms * NS_PER_MS)


def begin_node(first: str, second: str, settings: Settings) -> Node:
    """Returns a node where one job starts a moment before the other."""
    node = Node(settings)
    for job, at_ns in ((first, 0), (second, NS_PER_MS)):
        cpus = frozenset({0})
        registered = TaskRegistered(
            now_ns=at_ns, wall_ns=at_ns, job=job, task=TASKS[job], cpus=cpus
        )
        node.handle(registered)
    return node


def kernel_spans(until_ms: float, chance: random.Random) -> list[Span]:
    """Returns made-up turns of one node under the kernel alone: of uneven length."""
    spans: list[Span] = []
    at, job = 0.0, chance.choice("AB")
    while at < until_ms:
        end = min(until_ms, at + KERNEL_TURN_MS * chance.uniform(0.5, 1.5))
        spans.append((job, at, end))
        at, job = end, "B" if job == "A" else "A"
    return spans


def draw_node(axes: Axes, row: float, spans: Iterable[Span], label: str) -> None:
    """Draws one node's bar: the job that it ran at each time."""
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
    """Removes the axes that a picture of bars does not need."""
    axes.set_yticks([])
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)


def coscheduling() -> Figure:
    """Draws two nodes with two jobs: the kernel alone above, cosched below."""
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
    drawn = (
        (above, alone, "kernel alone (schematic): each node chooses for itself"),
        (below, ours, "cosched: both nodes run the same job"),
    )
    for axes, rows, title in drawn:
        for row, spans in enumerate(rows):
            draw_node(axes, 1 - row, spans, f"node {row + 1}")
        bare(axes, title)
    below.set_xlabel("ms")
    return figure


def pulled_switch() -> Figure:
    """Draws node 2, which refuses an early message of A and is pulled by a later one."""
    since, until, gmet, came = 360.0, 960.0, 100.0, 560.0
    settings = Settings().changed({"slice": "1s", "gmet": f"{gmet:g}ms", "align": "off"})
    node1, node2 = begin_node("A", "B", settings), begin_node("B", "A", settings)
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
    axes.set_xlim(since, until)
    bare(axes, "a message from a scheduled peer pulls a switch")
    axes.set_xlabel("ms")
    return figure


def fleet_ratios() -> dict[str, list[tuple[float, float]]]:
    """Returns for each number of jobs: ms between messages, and cosched / kernel.

    Read from the mean responses of jobs with one rank on each node.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    grain_ms = 0.0
    for line in FLEET.read_text().splitlines():
        if re.fullmatch(r"\d+", line):
            grain_ms = int(line) / NS_PER_MS
        elif match := re.match(r" *cosched, spread, (\d).* ([\d.]+) of kernel's", line):
            found.setdefault(match[1], []).append((grain_ms, float(match[2])))
    return found


def pays() -> Figure:
    """Draws the gain by how long the jobs compute between two messages."""
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.axhline(1.0, color=GREY, lw=1)
    axes.text(0.014, 1.02, "the kernel alone", color=GREY, va="bottom")
    for (jobs, points), colour in zip(
        fleet_ratios().items(), COLOURS.values(), strict=True
    ):
        axes.plot(*zip(*points, strict=True), marker="o", color=colour, lw=2)
        grain_ms, ratio = points[0]
        axes.text(
            grain_ms * 0.9, ratio, f"{jobs} jobs", color=colour, ha="right", va="center"
        )
    axes.set_xscale("log")
    axes.set_xlim(0.013, 40)
    axes.set_xticks([0.03, 0.3, 3, 30], ["0.03", "0.3", "3", "30"])
    axes.minorticks_off()
    axes.set_ylim(0, 1.15)
    axes.set_xlabel("ms of computation between two messages")
    axes.set_ylabel("mean response,\ncosched / kernel")
    axes.set_title(
        "Does it pay? The more often jobs exchange messages, the more", loc="left"
    )
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def box(
    axes: Axes, corner: tuple[float, float], size: tuple[float, float], text: str
) -> None:
    """Draws a box with a text in it. corner: the lower left one."""
    style: dict[str, Any] = {
        "boxstyle": "round,pad=0,rounding_size=0.12",
        "ec": GREY,
        "fc": "white",
    }
    axes.add_patch(FancyBboxPatch(corner, *size, **style))
    middle = corner[0] + size[0] / 2, corner[1] + size[1] / 2
    axes.text(*middle, text, fontsize=9, **CENTRED)


def deployment() -> Figure:
    """Draws the processes between the shell and the ranks."""
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, 16)
    axes.set_ylim(0, 9.2)
    starter = "your shell or job script\n\ncosched-run\n+ mpiexec or srun"
    box(axes, (0.1, 3.5), (3.6, 2.2), starter)
    grey = {"arrowstyle": "-|>", "color": GREY}
    both = {"arrowstyle": "<|-|>", "color": GREY}
    for bottom, number in ((4.9, 1), (0.2, 2)):
        axes.add_patch(FancyBboxPatch((6.1, bottom), 9.8, 4.1, **NODE_BOX))
        axes.text(6.3, bottom + 3.7, f"node {number}", weight="bold", va="center")
        box(axes, (6.4, bottom + 1.4), (2.6, 1.4), "rank of job A\n+ shim")
        box(axes, (12.5, bottom + 2.4), (3.2, 1.2), "scheduler daemon")
        box(axes, (12.5, bottom + 0.3), (3.2, 1.2), "timer daemon")
        axes.annotate("", xy=(6.35, bottom + 2.1), xytext=(3.75, 4.6), arrowprops=grey)
        axes.annotate(
            "", xy=(9.05, bottom + 2.5), xytext=(12.45, bottom + 2.5), arrowprops=both
        )
        axes.annotate(
            "", xy=(14.1, bottom + 2.35), xytext=(14.1, bottom + 1.55), arrowprops=grey
        )
        for x, y, words in (
            (10.75, 3.25, "registration: a socket\nafter it: shared memory"),
            (10.75, 2.1, "CPU shares: cgroups"),
            (13.1, 1.95, "slice over"),
        ):
            axes.text(x, bottom + y, words, fontsize=8, **CENTRED)
    axes.text(4.4, 7.2, "starts the ranks,\npreloads the shim", fontsize=8, **CENTRED)
    blue = {"arrowstyle": "<|-|>", "color": COLOURS["A"], "lw": 2}
    axes.annotate("", xy=(7.7, 3.05), xytext=(7.7, 6.25), arrowprops=blue)
    axes.text(7.9, 4.6, "MPI messages", fontsize=8, color=COLOURS["A"], va="center")
    return figure


PICTURES = (coscheduling, pulled_switch, pays, deployment)


def draw_all(folder: Path) -> list[Path]:
    """Draws all of them into a folder; returns their files."""
    paths = []
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "cosched"}):
        for draw in PICTURES:
            paths.append(folder / f"{draw.__name__}.svg")
            draw().savefig(paths[-1], facecolor="white", metadata={"Date": None})
    return paths


def main() -> None:
    """Draws all of them."""
    for path in draw_all(FIGURES):
        print(path.relative_to(FIGURES.parent.parent))


if __name__ == "__main__":
    main()
