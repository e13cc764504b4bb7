"""Keeps in the job store what a domain has learned of programs: how fast they are beside
each other, and whether users' labels were right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any

import msgspec

from cosched.cluster.database import Database
from cosched.core.bounds import JobNumber, Name, Natural, Slots, UserId
from cosched.core.complaints import Complaints
from cosched.core.decoding import convert
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.labels import Checked
from cosched.core.symbiosis.program_pairs import Pair, PairRun
from cosched.core.symbiosis.resources import Limits, Resource

TABLES = """
CREATE TABLE pair_runs (
    job INTEGER NOT NULL,
    start INTEGER NOT NULL,
    beside TEXT NOT NULL,
    uid INTEGER NOT NULL,
    program TEXT NOT NULL,
    slowdown REAL NOT NULL,
    at_least REAL NOT NULL,
    seen_ns INTEGER NOT NULL,
    PRIMARY KEY (job, start, beside)
) STRICT;
CREATE TABLE labels (
    uid INTEGER NOT NULL,
    program TEXT NOT NULL,
    label TEXT NOT NULL,
    found TEXT NOT NULL,
    runs INTEGER NOT NULL,
    right INTEGER NOT NULL,
    wrong INTEGER NOT NULL,
    seen_ns INTEGER NOT NULL,
    PRIMARY KEY (uid, program)
) STRICT
"""
#: A user and a program: both names are bounded by those of submissions.
_Application = Annotated[str, msgspec.Meta(max_length=300)]
_Factor = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
_AtLeast = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class _RunRow(msgspec.Struct, array_like=True):
    job: JobNumber
    start: Slots
    beside: _Application
    uid: UserId
    program: _Application
    slowdown: _Factor
    at_least: _AtLeast
    seen_ns: Natural


class _LabelRow(msgspec.Struct, array_like=True):
    uid: UserId
    program: Name
    label: str
    found: str
    runs: Natural
    right: Natural
    wrong: Natural
    seen_ns: Natural


class LearnedStore:
    """The tables in a store's file. Each change waits while the disk is full."""

    def __init__(self, file: Database, complaints: Complaints) -> None:
        self._file = file
        self._complaints = complaints

    def runs(self) -> list[PairRun]:
        """Returns the runs of pairs. Leaves out damaged ones, with one line."""
        return list(self._readable("pair_runs", _RunRow, _run))

    def save_run(self, run: PairRun, forgotten: Iterable[PairRun]) -> None:
        """Stores a run in place of an earlier state of it, and removes forgotten ones."""
        row = _RunRow(
            *(run.job, run.start, run.pair.background, run.uid, run.pair.primary),
            *(run.slowdown, run.at_least, run.seen_ns),
        )
        self._save("pair_runs", row)
        self.drop_runs(forgotten)

    def drop_runs(self, forgotten: Iterable[PairRun]) -> None:
        """Removes forgotten runs."""
        same = "DELETE FROM pair_runs WHERE job = ? AND start = ? AND beside = ?"
        statements = [(same, run.key) for run in forgotten]
        if statements:
            self._file.store_all(statements)

    def labels(self) -> list[Checked]:
        """Returns what is known of labels. Leaves out damaged rows, with one line."""
        return list(self._readable("labels", _LabelRow, _checked))

    def save_label(self, kept: Checked, forgotten: Iterable[Checked]) -> None:
        """Stores what is known of a program's label, and removes forgotten programs."""
        row = _LabelRow(
            *(kept.uid, kept.program, _text(kept.label), _text(kept.found)),
            *(kept.runs, kept.right, kept.wrong, kept.seen_ns),
        )
        self._save("labels", row)
        same = "DELETE FROM labels WHERE uid = ? AND program = ?"
        statements = [(same, (each.uid, each.program)) for each in forgotten]
        if statements:
            self._file.store_all(statements)

    def _save(self, table: str, row: msgspec.Struct) -> None:
        values: Sequence[Any] = msgspec.structs.astuple(row)
        marks = ", ".join("?" * len(values))
        self._file.store(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", values)

    def _readable(
        self, table: str, kind: type[Any], read: Callable[[Any], Any]
    ) -> Iterator[Any]:
        columns = ", ".join(kind.__struct_fields__)
        for row in self._file.rows(f"SELECT {columns} FROM {table}"):
            try:
                yield read(convert(row, kind, f"a row of {table}"))
            except CoschedError as error:
                self._complaints.about(table, "a row is left out", str(error))


def store_learned(file: Database) -> None:
    """Gives a file of version 7 room for what a domain learns."""
    for table in TABLES.split(";"):
        file.run(table)


def _run(row: _RunRow) -> PairRun:
    pair = Pair(row.program, row.beside)
    words = (row.slowdown, row.at_least, row.seen_ns)
    return PairRun(row.job, row.start, row.uid, pair, *words)


def _checked(row: _LabelRow) -> Checked:
    limits = _limits(row.label), _limits(row.found)
    return Checked(
        row.uid, row.program, *limits, row.runs, row.right, row.wrong, row.seen_ns
    )


def _text(limits: Limits) -> str:
    return ",".join(sorted(resource.value for resource in limits))


def _limits(text: str) -> Limits:
    """Returns the resources of a row. Raises CoschedError for another word."""
    try:
        return frozenset(map(Resource, text.split(",") if text else ()))
    except ValueError:
        raise CoschedError("a label names no resource") from None
