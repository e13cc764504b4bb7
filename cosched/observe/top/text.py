"""Formats the rows of ``cosched top``: the same columns for the screen and for --once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cosched.core.counting import counted
from cosched.observe.status import state_word
from cosched.observe.top.model import JobRow, NodeRow, View
from cosched.observe.top.recent import Trends
from cosched.tables import WIDTH, cell, cut, table

_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    title: str  #: its head
    width: int  #: its width on the screen, in characters
    text: Callable[[JobRow], str]  #: returns its text for a job
    key: Callable[[JobRow], Any]  #: returns the value that sorts the rows
    side: str = ">"  #: the side at which its texts stand: ``<`` or ``>``

    def place(self, text: str) -> str:
        """Pads or cuts ``text`` to the column's width."""
        return cell(text, self.side, self.width)


def percent(fraction: float | None) -> str:
    """Formats a fraction as ``47%``; None as ``-``."""
    return "-" if fraction is None else f"{fraction * 100:.0f}%"


def rate(number: float) -> str:
    """Formats a number a second in at most four characters."""
    if number >= 9999.5:
        return f"{number / 1000:.0f}k"
    return f"{number:.0f}" if number >= 99.5 else f"{number:.1f}"


def _where(job: JobRow) -> str:
    """Returns on how many nodes the job is scheduled, or the state that prevents it."""
    if job.state not in ("on", "off"):
        return state_word(job.state)[:4]
    return f"{job.scheduled_on}/{len(job.nodes)}"


def _progress(job: JobRow) -> str:
    """Returns how long the job was scheduled, and how long it is expected to be."""
    expected = "?" if job.expected_s is None else _seconds(job.expected_s)
    return f"{_seconds(job.ran_s)}/{expected}"


def _seconds(seconds: float) -> str:
    """Formats a time in at most four characters."""
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    if seconds < 999.5:
        return f"{seconds:.0f}s"
    minutes = seconds / 60
    return f"{minutes:.0f}m" if minutes < 999.5 else f"{minutes / 60:.0f}h"


#: 80 characters with one space between two columns; the trend is the last column.
COLUMNS = (
    Column("job", 12, lambda j: j.name, lambda j: (j.name, j.uid), side="<"),
    Column("rk", 3, lambda j: str(j.tasks), lambda j: -j.tasks),
    Column("on", 4, _where, lambda j: -j.scheduled_on),
    Column("ran/exp", 9, _progress, lambda j: -j.ran_s),
    Column("share", 5, lambda j: percent(j.scheduled), lambda j: -j.scheduled),
    Column("due", 4, lambda j: percent(j.entitled), lambda j: -j.entitled),
    Column("use", 4, lambda j: percent(j.useful), lambda j: -j.useful),
    Column("wait", 4, lambda j: percent(j.waiting), lambda j: -j.waiting),
    Column("fill", 4, lambda j: percent(j.filled), lambda j: -(j.filled or 0.0)),
    Column("agree", 5, lambda j: percent(j.agreement), lambda j: -(j.agreement or 0.0)),
    Column("sw/s", 4, lambda j: rate(j.switches_rate), lambda j: -j.switches_rate),
    Column("ref/s", 5, lambda j: rate(j.refused_rate), lambda j: -j.refused_rate),
)
TREND_WIDTH = WIDTH - sum(column.width + 1 for column in COLUMNS)
LEGEND = (
    "ran/exp: scheduled so far, expected; share: time scheduled; due: an equal part;\n"
    "use, wait: own code, MPI; fill: waits others filled; agree: on all nodes at once"
)


def sparkline(shares: Sequence[float], width: int = TREND_WIDTH) -> str:
    """Draws the last shares as bars, the newest at the right."""
    last = shares[-width:]
    steps = len(_BARS) - 1
    bars = "".join(_BARS[round(min(1.0, max(0.0, share)) * steps)] for share in last)
    return f"{bars:>{width}}"


def sort_jobs(jobs: Iterable[JobRow], column: int, *, backwards: bool) -> list[JobRow]:
    """Sorts jobs by a column, the largest value first; equal jobs by name."""
    by_name = sorted(jobs, key=COLUMNS[0].key)
    return sorted(by_name, key=COLUMNS[column].key, reverse=backwards)


def header() -> str:
    """Returns the line with the columns' titles."""
    return " ".join(column.place(column.title) for column in COLUMNS) + " trend"


def node_line(node: NodeRow) -> str:
    """Formats a node in at most 80 characters."""
    align = "aligned" if node.align else "free"
    tail = (
        f"slice {node.slice} {align}, gmet {node.gmet}, "
        f"{rate(node.switches_rate)} sw/s, {rate(node.refused_rate)} ref/s, "
        f"cpu {node.daemon_cpu * 100:.1f}%"
    )
    room = max(12, 79 - len(tail))
    running = ", ".join(node.running) or "idle"
    head = f"{cut(node.name, room - 6)}: {running}"
    return cut(f"{cell(head, '<', room)} {tail}", WIDTH)


def summary(seen: View) -> str:
    """Formats the numbers of nodes and jobs, and the agreement, in one line."""
    jobs, nodes = counted(len(seen.jobs), "job"), counted(len(seen.nodes), "node")
    agree = "" if seen.agreement is None else f", nodes agree {percent(seen.agreement)}"
    waiting = sorted({name for node in seen.nodes for name in node.waiting})
    wait = f", {len(waiting)} waiting for memory" if waiting else ""
    return f"{nodes}, {jobs}{wait}{agree}"


def page(seen: View, trends: Trends) -> str:
    """Formats all as plain text, for --once."""
    lines = [summary(seen), *(node_line(node) for node in seen.nodes), ""]
    if seen.jobs:
        jobs = sort_jobs(seen.jobs, 0, backwards=False)
        rows = [
            (*(c.text(job) for c in COLUMNS), sparkline(trends.of(job.key))) for job in jobs
        ]
        titles = [*(c.title for c in COLUMNS), "trend"]
        align = "".join(c.side for c in COLUMNS)
        lines += table(titles, rows, f"{align}<", gap=1)
    else:
        lines.append("no jobs")
    return "\n".join(lines) + "\n"


def plain(seen: View) -> dict[str, Any]:
    """Returns the document of --json: fractions from 0 to 1, rates a second."""
    return asdict(seen)
