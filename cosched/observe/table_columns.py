"""Makes tables of columns that users choose, for people and for spreadsheets."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from cosched.core.config.suggestions import suggest
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.tables import WIDTH, cut_inside, table

T = TypeVar("T")

_S_PER_HOUR = 3600
#: A table for people has this in the place of an unknown value.
UNKNOWN = "-"


#: A value that loses letters inside is cut to no less than this.
_CUT_LEAST = 12
_ANY_WIDTH = 10_000


class Kind(NamedTuple):
    """A kind of values."""

    align: str  #: ``<`` for texts, ``>`` for numbers
    shown: Callable[[Any], str]  #: returns a value as people read it
    plain: Callable[[Any], str]  #: returns a value as programs read it
    #: Returns a value for a table that is too wide; None: as ``shown``.
    short: Callable[[Any], str] | None = None


class Column(Generic[T]):
    """A column of a table.

    kind: the kind of its values. value: returns its value for a row; None if that is
    unknown. title: its head for people; empty: its name.
    """

    __slots__ = ("kind", "title", "value")

    def __init__(self, kind: Kind, value: Callable[[T], Any], title: str = "") -> None:
        self.kind = kind
        self.value = value
        self.title = title


def short_time(seconds: float) -> str:
    """Formats a time in at most seven characters."""
    if seconds < 100:
        return f"{seconds:.2f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def clock(at_ns: int, now_s: float) -> str:
    """Returns a time of the day, or a date for times that are far away."""
    near = abs(at_ns / NS_PER_S - now_s) < _S_PER_HOUR * 12
    return f"{_local(at_ns):%H:%M:%S}" if near else f"{_local(at_ns):%m-%d %H:%M}"


def _local(wall_ns: int) -> datetime:
    return datetime.fromtimestamp(wall_ns // NS_PER_S).astimezone()


TEXT = Kind("<", str, str)
COUNT = Kind(">", str, str)
SECONDS = Kind(">", short_time, lambda seconds: f"{seconds:.3f}")
HOURS = Kind(
    ">",
    lambda seconds: f"{seconds / _S_PER_HOUR:.2f}",
    lambda seconds: f"{seconds / _S_PER_HOUR:.6f}",
)
SHARE = Kind(">", lambda share: f"{share:.0%}", lambda share: f"{share:.4f}")
DATE = Kind(
    ">",  # only columns on the left are cut
    lambda wall_ns: f"{_local(wall_ns):%m-%d %H:%M:%S}",
    lambda wall_ns: _local(wall_ns).isoformat(),
    lambda wall_ns: clock(wall_ns, time.time()),
)


class Columns(Generic[T]):
    """The columns that a command offers, by name.

    command: the command, whose --help lists them. columns: all columns, in the order of
    --csv. aliases: other words for some of them. cut: the column of which values lose
    letters inside if a table is too wide; empty: none.
    """

    def __init__(
        self,
        command: str,
        columns: Mapping[str, Column[T]],
        aliases: Mapping[str, str],
        cut: str = "",
    ) -> None:
        self.command = command
        self.columns = columns
        self.aliases = aliases
        self.cut = cut

    def read(self, text: str) -> tuple[str, ...]:
        """Reads names with commas between them, in any case; also other words for them.
        Raises CoschedError for a name that is no column."""
        words = [name.strip().lower() for name in text.split(",")]
        names = tuple(self.aliases.get(word, word) for word in words)
        for name in names:
            if name not in self.columns:
                hint = suggest(name, [*self.columns, *self.aliases])
                hint = hint or f"; {self.command} --help lists them"
                raise CoschedError(f"--format: '{name}' is not a column{hint}")
        if len(set(names)) < len(names):
            raise CoschedError(f"--format: '{text}' names a column twice")
        return names

    def shown(
        self, names: Sequence[str], found: Iterable[T], width: int = WIDTH
    ) -> list[str]:
        """Returns a table for people, its head first. width: the most characters of a
        line."""
        chosen = [self.columns[name] for name in names]
        head = [column.title or name for name, column in zip(names, chosen, strict=True)]
        values = [[column.value(one) for column in chosen] for one in found]
        align = "".join(column.kind.align for column in chosen)

        def widest() -> int:
            return max(map(len, table(head, rows, align, gap=1, width=_ANY_WIDTH)))

        rows = [_texts(chosen, row, short=False) for row in values]
        if widest() > width:
            rows = [_texts(chosen, row, short=True) for row in values]
        if widest() > width and self.cut in names:
            at = names.index(self.cut)
            most = max(len(row[at]) for row in rows) - (widest() - width)
            for row in rows:
                row[at] = cut_inside(row[at], max(most, _CUT_LEAST))
        return table(head, rows, align, gap=1, width=width)

    def as_csv(self, names: Sequence[str], found: Iterable[T]) -> str:
        """Returns the columns as CSV with a head: times in seconds, dates as ISO 8601,
        nothing for an unknown value."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names)
        for one in found:
            chosen = [self.columns[name] for name in names]
            values = ((column.kind, column.value(one)) for column in chosen)
            writer.writerow(["" if v is None else kind.plain(v) for kind, v in values])
        return text.getvalue()


def _texts(
    columns: Sequence[Column[Any]], values: Sequence[Any], *, short: bool
) -> list[str]:
    """Returns the cells of a row for people."""
    kinds = [column.kind for column in columns]
    return [
        UNKNOWN
        if value is None
        else (kind.short if short and kind.short else kind.shown)(value)
        for kind, value in zip(kinds, values, strict=True)
    ]
