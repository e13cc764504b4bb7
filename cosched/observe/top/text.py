"""The rows of ``cosched top`` as text: one set of columns for the screen and for --once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cosched.observe.top.model import JobRow, NodeRow, Trends, View

_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title and width, its text, and what it is sorted by."""

    title: str
    width: int
    text: Callable[[JobRow], str]
    key: Callable[[JobRow], Any]
    left: bool = False

    def cell(self, job: JobRow) -> str:
        """The text in its place."""
        return self.place(self.text(job))

    def place(self, text: str) -> str:
        """A text of exactly the column's width."""
        text = cut(text, self.width)
        return f"{text:<{self.width}}" if self.left else f"{text:>{self.width}}"


def percent(fraction: float | None) -> str:
    """``47%``, or ``-`` for None."""
    return "-" if fraction is None else f"{fraction * 100:.0f}%"


def rate(number: float) -> str:
    """A number a second, in four places."""
    if number >= 9999.5:
        return f"{number / 1000:.0f}k"
    return f"{number:.0f}" if number >= 99.5 else f"{number:.1f}"


def cut(text: str, width: int) -> str:
    """The text, shortened with a mark if it is too long."""
    return text if len(text) <= width else text[: width - 1] + "~"


def _where(job: JobRow) -> str:
    """On how many of its nodes, or why on none."""
    if job.state not in ("on", "off"):
        return job.state[:4]
    return f"{job.scheduled_on}/{len(job.nodes)}"


#: 80 columns with a blank before each but the first, and the trend behind them.
COLUMNS = (
    Column("job", 18, lambda j: j.name, lambda j: (j.name, j.uid), left=True),
    Column("rk", 3, lambda j: str(j.tasks), lambda j: -j.tasks),
    Column("on", 4, _where, lambda j: -j.scheduled_on),
    Column("share", 5, lambda j: percent(j.scheduled), lambda j: -j.scheduled),
    Column("due", 4, lambda j: percent(j.entitled), lambda j: -j.entitled),
    Column("use", 4, lambda j: percent(j.useful), lambda j: -j.useful),
    Column("wait", 4, lambda j: percent(j.waiting), lambda j: -j.waiting),
    Column("agree", 5, lambda j: percent(j.agreement), lambda j: j.agreement or 0.0),
    Column("sw/s", 4, lambda j: rate(j.switches_rate), lambda j: -j.switches_rate),
    Column("ref/s", 5, lambda j: rate(j.refused_rate), lambda j: -j.refused_rate),
)
TREND_WIDTH = 80 - sum(column.width + 1 for column in COLUMNS)
LEGEND = (
    "share: of the time scheduled; due: an equal part; use, wait: in the ranks' own\n"
    "code and in MPI while scheduled; agree: scheduled on all its nodes at once"
)


def sparkline(shares: Sequence[float], width: int = TREND_WIDTH) -> str:
    """The last of the shares as bars, newest at the right."""
    last = shares[-width:]
    steps = len(_BARS) - 1
    bars = "".join(_BARS[round(min(1.0, max(0.0, share)) * steps)] for share in last)
    return f"{bars:>{width}}"


def sort_jobs(jobs: Iterable[JobRow], column: int, *, backwards: bool) -> list[JobRow]:
    """The jobs by a column, most first; those alike by name."""
    by_name = sorted(jobs, key=COLUMNS[0].key)
    return sorted(by_name, key=COLUMNS[column].key, reverse=backwards)


def header() -> str:
    """The columns' titles."""
    return " ".join(column.place(column.title) for column in COLUMNS) + " trend"


def job_line(job: JobRow, trends: Trends) -> str:
    """A job in at most 80 columns."""
    cells = " ".join(column.cell(job) for column in COLUMNS)
    return f"{cells} {sparkline(trends.of(job.key))}"


def node_line(node: NodeRow) -> str:
    """A node in at most 80 columns."""
    align = "aligned" if node.align else "free"
    tail = (
        f"slice {node.slice} {align}, gmet {node.gmet}, "
        f"{rate(node.switches_rate)} sw/s, {rate(node.refused_rate)} ref/s, "
        f"cpu {node.daemon_cpu * 100:.1f}%"
    )
    room = max(12, 79 - len(tail))
    running = ", ".join(node.running) or "idle"
    head = cut(f"{cut(node.name, room - 6)}: {running}", room)
    return cut(f"{head:<{room}} {tail}", 80)


def summary(seen: View) -> str:
    """One line for all."""
    jobs = f"{len(seen.jobs)} job{'s' * (len(seen.jobs) != 1)}"
    nodes = f"{len(seen.nodes)} node{'s' * (len(seen.nodes) != 1)}"
    agree = "" if seen.agreement is None else f", nodes agree {percent(seen.agreement)}"
    waiting = sorted({name for node in seen.nodes for name in node.waiting})
    wait = f", {len(waiting)} waiting for memory" if waiting else ""
    return f"{nodes}, {jobs}{wait}{agree}"


def page(seen: View, trends: Trends, column: int = 0) -> str:
    """Everything as plain text, for --once."""
    lines = [summary(seen), *(node_line(node) for node in seen.nodes), ""]
    if seen.jobs:
        jobs = sort_jobs(seen.jobs, column, backwards=False)
        lines += [header().rstrip(), *(job_line(job, trends).rstrip() for job in jobs)]
    else:
        lines.append("no jobs")
    return "\n".join(lines) + "\n"


def plain(seen: View) -> dict[str, Any]:
    """For --json: fractions between 0 and 1, rates a second."""
    return asdict(seen)
