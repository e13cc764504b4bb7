"""Defines the columns of ``cosched top``, one line a job, and sorts the jobs by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cosched.observe.status import state_word
from cosched.observe.top.model import JobRow
from cosched.tables import WIDTH, cell

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
