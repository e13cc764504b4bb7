"""Defines the columns in which ended jobs are listed, for people and for spreadsheets."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cosched.core.config.kinds import suggest
from cosched.core.errors import CoschedError
from cosched.core.trace.sharing import found_limits
from cosched.core.units import NS_PER_S
from cosched.linux.users import find_user_name
from cosched.observe.filling import share
from cosched.observe.job_summary import JobSummary
from cosched.observe.shared_nodes import verdict_of
from cosched.rundir.paths import name_for
from cosched.tables import WIDTH, cut_inside, table

_S_PER_HOUR = 3600
#: A table for people has this in the place of an unknown value.
UNKNOWN = "-"
#: The name of a job is cut to no less than this.
_NAME_LEAST = 12
_ANY_WIDTH = 10_000


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of values."""

    align: str  #: ``<`` for texts, ``>`` for numbers
    shown: Callable[[Any], str]  #: returns a value as people read it
    plain: Callable[[Any], str]  #: returns a value as programs read it


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of ended jobs."""

    kind: Kind  #: the kind of its values
    #: Returns its value for a job; None if that is unknown.
    value: Callable[[JobSummary], Any]
    title: str = ""  #: its head for people; empty: its name


def short_time(seconds: float) -> str:
    """Formats a time in at most seven characters."""
    if seconds < 100:
        return f"{seconds:.2f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def _local(wall_ns: int) -> datetime:
    return datetime.fromtimestamp(wall_ns // NS_PER_S).astimezone()


_TEXT = Kind("<", str, str)
_COUNT = Kind(">", str, str)
_SECONDS = Kind(">", short_time, lambda seconds: f"{seconds:.3f}")
_HOURS = Kind(
    ">",
    lambda seconds: f"{seconds / _S_PER_HOUR:.2f}",
    lambda seconds: f"{seconds / _S_PER_HOUR:.6f}",
)
_SHARE = Kind(">", lambda share: f"{share:.0%}", lambda share: f"{share:.4f}")
_DATE = Kind(
    ">",  # only columns on the left are cut
    lambda wall_ns: f"{_local(wall_ns):%m-%d %H:%M:%S}",
    lambda wall_ns: _local(wall_ns).isoformat(),
)


def _name(one: JobSummary) -> str:
    """Marks a job that a daemon saw only in part, and names another user's by its key."""
    return (one.name if one.uid == os.geteuid() else one.job) + ("*" if one.partial else "")


def _filled(one: JobSummary) -> float | None:
    """Returns the part of its waits that other jobs filled."""
    if one.filling is None or not one.filling.waits_s:
        return None
    return one.filling.filled_s / one.filling.waits_s


def _filled_by(one: JobSummary) -> str | None:
    parts = one.filling.filled_by if one.filling else ()
    return " ".join(name_for(one.job, part.job) for part in parts) or None


def _fills(one: JobSummary) -> str | None:
    parts = one.filling.fills if one.filling else ()
    shares = (f"{share(part)} of {name_for(one.job, part.job)}" for part in parts)
    return ", ".join(shares) or None


def _label(one: JobSummary) -> str | None:
    """Returns the label with what was seen of it: ``memory wrong``."""
    if one.sharing is None:
        return None
    verdict = verdict_of(one.sharing)
    names = ",".join(one.sharing.limited_by)
    return names if verdict is None else f"{names} {verdict.value}"


def _limit(one: JobSummary) -> str | None:
    """Returns what the job did most of the time."""
    found = found_limits(one.sharing) if one.sharing else None
    return None if found is None else f"{found.doing} {found.percent}%"


def _beside(one: JobSummary) -> str | None:
    """Returns its speeds beside others, as parts of its speed alone."""
    parts = one.sharing.beside if one.sharing else ()
    shares = (
        f"{'+'.join(name_for(one.job, job) for job in part.jobs)} "
        f"{1 / part.slowdown if part.slowdown else 0:.2f}"
        for part in parts
    )
    return ", ".join(shares) or None


def _exit(one: JobSummary) -> str | None:
    if one.unfinished is None or one.partial or not one.came_to_mpi:
        return None
    return f"{one.unfinished} died" if one.unfinished else "ok"


COLUMNS = {
    "job": Column(Kind("<", _name, lambda one: one.name), lambda one: one),
    "key": Column(_TEXT, lambda one: one.job),
    "user": Column(_TEXT, lambda one: find_user_name(one.uid) or str(one.uid)),
    "uid": Column(_COUNT, lambda one: one.uid),
    "ranks": Column(_COUNT, lambda one: one.tasks),
    "nodes": Column(_COUNT, lambda one: len(one.nodes)),
    "nodehours": Column(_HOURS, lambda one: one.node_s),
    "changes": Column(_COUNT, lambda one: one.changes),
    "nodelist": Column(_TEXT, lambda one: " ".join(one.nodes)),
    "began": Column(_DATE, lambda one: one.began_wall_ns),
    "ended": Column(_DATE, lambda one: one.ended_wall_ns),
    "response": Column(_SECONDS, lambda one: one.response_s),
    "expected": Column(_SECONDS, lambda one: one.expected_s),
    "ran": Column(_SECONDS, lambda one: one.scheduled_s),
    "waited": Column(_SECONDS, lambda one: one.unscheduled_s),
    "suspended": Column(_SECONDS, lambda one: one.suspended_s),
    "detached": Column(_SECONDS, lambda one: one.released_s),
    "together": Column(_SHARE, lambda one: one.together),
    "alone": Column(_SECONDS, lambda one: one.alone_s, "alone~"),
    "cpu": Column(_SECONDS, lambda one: one.cpu_s, "CPU"),
    "switches": Column(_COUNT, lambda one: one.switches),
    "granted": Column(_COUNT, lambda one: one.granted),
    "refused": Column(_COUNT, lambda one: sum(one.refused.values())),
    "trapped": Column(_COUNT, lambda one: one.trapped),
    "exit": Column(_COUNT, _exit),
    "startup": Column(_SECONDS, lambda one: one.began_after_s),
    "waits": Column(_SECONDS, lambda one: one.filling and one.filling.waits_s),
    "filled": Column(_SHARE, _filled),
    "filledby": Column(_TEXT, _filled_by),
    "fills": Column(_TEXT, _fills),
    "label": Column(_TEXT, _label),
    "limit": Column(_TEXT, _limit),
    "beside": Column(_TEXT, _beside),
    "rested": Column(_SECONDS, lambda one: one.sharing and one.sharing.rested_s),
    "gaveway": Column(_SECONDS, lambda one: one.sharing and one.sharing.gave_way_s),
}
#: The words of sacct for the same.
_ALIASES = {
    **{"jobname": "job", "jobid": "key", "ntasks": "ranks", "nnodes": "nodes"},
    **{"start": "began", "end": "ended", "elapsed": "response", "scheduled": "ran"},
    "totalcpu": "cpu",
}


def read_columns(text: str) -> tuple[str, ...]:
    """Reads names with commas between them, in any case; also the words of sacct. Raises
    CoschedError for a name that is no column."""
    words = [name.strip().lower() for name in text.split(",")]
    names = tuple(_ALIASES.get(word, word) for word in words)
    for name in names:
        if name not in COLUMNS:
            hint = suggest(name, [*COLUMNS, *_ALIASES])
            hint = hint or "; cosched history --help lists them"
            raise CoschedError(f"--format: '{name}' is not a column{hint}")
    if len(set(names)) < len(names):
        raise CoschedError(f"--format: '{text}' names a column twice")
    return names


def shown(names: Sequence[str], found: Iterable[JobSummary]) -> list[str]:
    """Returns a table for people, its head first."""
    chosen = [COLUMNS[name] for name in names]
    head = [column.title or name for name, column in zip(names, chosen, strict=True)]
    rows = [
        [
            UNKNOWN if (value := c.value(one)) is None else c.kind.shown(value)
            for c in chosen
        ]
        for one in found
    ]
    align = "".join(column.kind.align for column in chosen)
    too_wide = max(map(len, table(head, rows, align, gap=1, width=_ANY_WIDTH))) - WIDTH
    if too_wide > 0 and "job" in names:
        at = names.index("job")
        most = max(len(row[at]) for row in rows) - too_wide
        for row in rows:
            row[at] = cut_inside(row[at], max(most, _NAME_LEAST))
    return table(head, rows, align, gap=1)


def as_csv(names: Sequence[str], found: Iterable[JobSummary]) -> str:
    """Returns the columns as CSV with a head: times in seconds, dates as ISO 8601, nothing
    for an unknown value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for one in found:
        values = ((COLUMNS[name].kind, COLUMNS[name].value(one)) for name in names)
        writer.writerow(["" if v is None else kind.plain(v) for kind, v in values])
    return text.getvalue()
