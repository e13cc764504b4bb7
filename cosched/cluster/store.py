"""Keeps the jobs of a domain in SQLite. Each change is on the disk when its call returns.

A torn or foreign file is refused. The controller's lock keeps a second controller away.
"""

from __future__ import annotations

import json
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

import msgspec

from cosched.cluster import learned_store
from cosched.cluster.database import STORE_REMEDY, open_database
from cosched.cluster.job_size import PastChange, change_decoder, decode_size
from cosched.cluster.job_suspension import suspension_decoder
from cosched.cluster.member import log_line
from cosched.cluster.record import Outcome, Record, State
from cosched.cluster.store_versions import CHANGES_MOST, TABLES, VERSION, upgrades
from cosched.cluster.submission import Submission, decode_submission
from cosched.core.bounds import GroupId, JobNumber, Name, Natural, Slots, Status, UserId
from cosched.core.complaints import Complaints
from cosched.core.decoding import (
    JsonDecoder,
    Malformed,
    convert,
    printable,
)
from cosched.core.errors import CoschedError


class _Row(msgspec.Struct, array_like=True):
    """A row of a job, with the columns of this order."""

    number: JobNumber
    uid: UserId
    gid: GroupId
    submission: bytes
    submitted_ns: Natural
    state: State
    start: Slots
    hosts: bytes | None
    started_ns: Natural | None
    ended_ns: Natural | None
    status: Status | None
    reason: str
    failed_starts: Slots
    size: bytes | None
    parts: bytes | None
    suspension: bytes | None
    array: Natural
    task: Natural | None
    let_in_ns: Natural | None


_COLUMNS = ", ".join(_Row.__struct_fields__)
_INSERT = "INSERT INTO jobs (token, uid, gid, submitted_ns, state, submission)"
_UPDATE = (
    "UPDATE jobs SET state = ?, start = ?, hosts = ?, started_ns = ?, "
    "ended_ns = ?, status = ?, reason = ?, failed_starts = ?, size = ?, "
    "parts = ?, suspension = ?, let_in_ns = ? WHERE number = ?"
)
#: The most jobs that are forgotten together.
FORGET_MOST = 1000
#: Submissions of arrays that are kept decoded.
_SHARED_MOST = 64
_hosts: JsonDecoder[tuple[str, ...]] = JsonDecoder(tuple[Name, ...], "names of nodes")
_parts: JsonDecoder[tuple[Slots, ...]] = JsonDecoder(tuple[Slots, ...], "parts of nodes")


class JobStore:
    """The jobs in the file ``path``. Raises CoschedError if it cannot be used.

    node_names: the domain's nodes by number, for a file of version 1. It is right about a
    job if they were the same when the job started. log: takes one line about a record that
    cannot be read, and about a full disk.
    """

    def __init__(
        self,
        path: Path,
        node_names: Sequence[str],
        log: Callable[[str], None] = log_line,
    ) -> None:
        self._path = path
        self._complaints = Complaints(log, time.monotonic_ns)
        self._file = open_database(
            path, TABLES, VERSION, STORE_REMEDY, log, upgrades(node_names)
        )
        #: The speeds and labels of programs that share nodes.
        self.learned = learned_store.LearnedStore(self._file, self._complaints)
        self._shared: OrderedDict[int, Submission] = OrderedDict()
        #: How many changes of sizes ended, by whether they were refused.
        self.changes_ended = self._sum_of_changes()

    def add(self, token: str, record: Record) -> int:
        """Stores a new job and returns its number. Raises CoschedError for a full disk."""
        values = (*_user(token, record), msgspec.json.encode(record.submission))
        return self._file.run(f"{_INSERT} VALUES (?, ?, ?, ?, ?, ?)", values)

    def add_array(self, token: str, record: Record, tasks: Sequence[int]) -> int:
        """Stores one job for each index of an array, with numbers in a row, or none of
        them. Returns the first number; otherwise as ``add``."""
        row = self._file.find("SELECT seq FROM sqlite_sequence WHERE name = 'jobs'")
        first: int = 1 if row is None else row[0] + 1
        insert = f"{_INSERT[:-1]}, number, array, task) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        shared = msgspec.json.encode(record.submission)
        statements: list[tuple[str, Sequence[Any]]] = [
            ("INSERT INTO arrays VALUES (?, ?)", (first, shared))
        ]
        for number, task in enumerate(tasks, first):
            # No user can give the tokens of the other tasks: they are not printable.
            own = token if number == first else f"\0{number}"
            statements.append((insert, (*_user(own, record), b"", number, first, task)))
        self._file.run_together(statements)
        return first

    def number_of(self, token: str, uid: int) -> int | None:
        """Returns the number of the job with a token of a user, or of the first task of its
        array; None if it is new. Raises CoschedError for a token of another user."""
        select = "SELECT number, uid FROM jobs WHERE token = ?"
        found = self._file.find(select, (token,))
        if found is None:
            return None
        number, owner = found
        if owner != uid:
            raise CoschedError("the token of this job is taken; choose another one")
        return cast(int, number)

    def save(self, record: Record) -> None:
        """Stores what has changed since the job was added. Waits while the disk is full."""
        self._file.store(_UPDATE, _changed(record))

    def save_all(self, records: Sequence[Record]) -> None:
        """Stores what has changed of several jobs at once, as ``save``."""
        self._file.store_all([(_UPDATE, _changed(record)) for record in records])

    def save_submission(self, number: int, submission: Submission) -> None:
        """Stores what the user of a job wants from now on. Waits while the disk is full."""
        self._file.store(
            "UPDATE jobs SET submission = ? WHERE number = ?",
            (msgspec.json.encode(submission), number),
        )

    def live(self) -> list[Record]:
        """Returns the jobs that have not ended, by number. Leaves out damaged records, with
        one line each."""
        states = [state.value for state in State if not state.over]
        marks = ", ".join("?" * len(states))
        rows = self._file.rows(
            f"SELECT {_COLUMNS} FROM jobs WHERE state IN ({marks}) ORDER BY number", states
        )
        return list(self._readable(rows))

    def find(self, number: int) -> Record | None:
        """Returns a job; None if there is none of this number."""
        row = self._file.find(f"SELECT {_COLUMNS} FROM jobs WHERE number = ?", (number,))
        return None if row is None else self._record(row)

    def tasks_of(self, array: int) -> list[Record]:
        """Returns all tasks of an array, by number; [] if there is no such array. Leaves
        out damaged records, as ``live``."""
        rows = self._file.rows(
            f"SELECT {_COLUMNS} FROM jobs WHERE array = ? AND array <> 0 ORDER BY number",
            (array,),
        )
        return list(self._readable(rows))

    def outcomes(self, number: int) -> list[Outcome]:
        """Returns the state of a job, or of each task of an array, by number; [] if there
        is none. Raises CoschedError for a damaged row."""
        rows = self._file.rows(
            "SELECT number, array, task, uid, state FROM jobs "
            "WHERE number = ? OR (array = ? AND array <> 0) ORDER BY number",
            (number, number),
        )
        found: list[Outcome] = convert(list(rows), list[Outcome], f"job {number}")
        return found

    def latest(self, most: int) -> Iterator[Record]:
        """Yields the jobs with the greatest numbers, the latest first, as ``live``."""
        rows = self._file.rows(
            f"SELECT {_COLUMNS} FROM jobs ORDER BY number DESC LIMIT ?", (most,)
        )
        return self._readable(rows)

    def save_change(self, record: Record, change: PastChange) -> None:
        """Stores a change of a job's size that has ended, and removes the oldest one beyond
        CHANGES_MOST. Waits while the disk is full. A change that is stored twice counts
        once."""
        number, refused = record.number, bool(change.refused)
        key = (number, record.start, change.generation)
        row = (*key, msgspec.json.encode(change))
        statements: list[tuple[str, Sequence[Any]]] = [
            ("INSERT OR REPLACE INTO changes VALUES (?, ?, ?, ?)", row)
        ]
        same = "SELECT 1 FROM changes WHERE job = ? AND start = ? AND generation = ?"
        is_new = self._file.find(same, key) is None
        if is_new:
            statements += [
                (
                    "INSERT INTO change_counts VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
                    "SET done = done + excluded.done, refused = refused + excluded.refused",
                    (number, not refused, refused),
                ),
                (
                    "DELETE FROM changes WHERE rowid IN (SELECT rowid FROM changes WHERE "
                    "job = ? ORDER BY start DESC, generation DESC LIMIT -1 OFFSET ?)",
                    (number, CHANGES_MOST),
                ),
            ]
        self._file.store_all(statements)
        self.changes_ended[refused] += is_new

    def changes(self, number: int) -> list[PastChange]:
        """Returns the latest changes of a job's size that have ended, in their order.
        Leaves out damaged ones, with one line."""
        rows = self._file.rows(
            "SELECT change FROM changes WHERE job = ? ORDER BY start, generation",
            (number,),
        )
        found: list[PastChange] = []
        for (row,) in rows:
            try:
                found.append(change_decoder.decode(row))
            except Malformed as error:
                detail = f"{self._path}: {error}"
                self._complaints.about(
                    f"job {number}", "a change of its size is left out", detail
                )
        return found

    def times_resized(self, number: int) -> int:
        """Returns how many changes of a job's size were done."""
        row = self._file.find("SELECT done FROM change_counts WHERE job = ?", (number,))
        count: int = 0 if row is None else row[0]
        return count

    def _sum_of_changes(self) -> Counter[bool]:
        found = self._file.find("SELECT sum(done), sum(refused) FROM change_counts")
        done, refused = found or (None, None)
        return Counter({False: done or 0, True: refused or 0})

    def forget_ended(self, before_ns: int, kept: Container[int]) -> int:
        """Removes the oldest jobs that ended before a time, at most FORGET_MOST; returns
        how many. An array goes once all its tasks have ended by then. Waits while the disk
        is full.

        kept: the numbers of jobs and arrays that stay."""
        numbers = list(islice(self._ended(before_ns, kept), FORGET_MOST))
        if numbers:
            those = (json.dumps(numbers),)
            named = "IN (SELECT value FROM json_each(?))"
            self._file.store_all(
                [
                    (f"DELETE FROM jobs WHERE number {named}", those),
                    (f"DELETE FROM changes WHERE job {named}", those),
                    (f"DELETE FROM change_counts WHERE job {named}", those),
                    (
                        f"DELETE FROM arrays WHERE number {named} AND number NOT IN "
                        "(SELECT array FROM jobs WHERE array <> 0)",
                        those,
                    ),
                ]
            )
        return len(numbers)

    def _ended(self, before_ns: int, kept: Container[int]) -> Iterator[int]:
        """Yields the jobs that ended before a time, by number. Leaves out arrays with a
        task that has not, and the jobs and arrays of the numbers ``kept``."""
        late: dict[int, bool] = {0: False}
        rows = self._file.rows(
            "SELECT number, array FROM jobs WHERE ended_ns < ? ORDER BY number",
            (before_ns,),
        )
        for number, array in rows:
            if array not in late:
                late[array] = self._is_late(array, before_ns)
            if not late[array] and number not in kept and array not in kept:
                yield number

    def _is_late(self, array: int, before_ns: int) -> bool:
        """Returns whether a task of an array has not ended before a time."""
        select = (
            "SELECT 1 FROM jobs WHERE array = ? AND array <> 0 "
            "AND (ended_ns IS NULL OR ended_ns >= ?) LIMIT 1"
        )
        return self._file.find(select, (array, before_ns)) is not None

    def agents(self) -> dict[str, int]:
        """Returns the incarnation of each node's latest agent."""
        return dict(self._file.rows("SELECT name, incarnation FROM agents"))

    def save_agent(self, name: str, incarnation: int) -> None:
        """Stores which agent a node has. Waits while the disk is full."""
        self._file.store("INSERT OR REPLACE INTO agents VALUES (?, ?)", (name, incarnation))

    def drains(self) -> dict[str, str]:
        """Returns the operator's reason for each node that is drained."""
        return dict(self._file.rows("SELECT name, reason FROM drains"))

    def save_drain(self, name: str, reason: str) -> None:
        """Stores that a node is drained. Waits while the disk is full."""
        self._file.store("INSERT OR REPLACE INTO drains VALUES (?, ?)", (name, reason))

    def forget_drain(self, name: str) -> None:
        """Stores that a node is not drained. Waits while the disk is full."""
        self._file.store("DELETE FROM drains WHERE name = ?", (name,))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _readable(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[Record]:
        for row in rows:
            try:
                yield self._record(row)
            except CoschedError as error:
                self._complaints.about(f"job {row[0]}", "it is left out", str(error))

    def _record(self, row: tuple[Any, ...]) -> Record:
        try:
            found: _Row = convert(row, _Row, "a row")
            hosts = _hosts.decode(found.hosts) if found.hosts else ()
            decoded = {
                "submission": self._submission(found),
                "hosts": hosts,
                "size": decode_size(found.size, len(hosts)) if found.size else None,
                "parts": _decode_parts(found.parts, len(hosts)),
                "suspension": (
                    suspension_decoder.decode(found.suspension)
                    if found.suspension
                    else None
                ),
            }
            return Record(**{**msgspec.structs.asdict(found), **decoded})
        except CoschedError as error:
            shown = printable(str(row[0]))
            raise CoschedError(f"{self._path}: job {shown} is damaged: {error}") from None

    def _submission(self, row: _Row) -> Submission:
        """Returns the submission of a row; tasks of an array share one. Raises CoschedError
        for bytes that are none."""
        if row.submission or not row.array:
            return decode_submission(row.submission)
        found = self._shared.get(row.array)
        if found is None:
            stored = self._file.find(
                "SELECT submission FROM arrays WHERE number = ?", (row.array,)
            )
            if stored is None:
                raise CoschedError(f"array {row.array} is missing")
            found = self._shared[row.array] = decode_submission(stored[0])
        self._shared.move_to_end(row.array)
        if len(self._shared) > _SHARED_MOST:
            self._shared.popitem(last=False)
        return found


def _user(token: str, record: Record) -> tuple[Any, ...]:
    """Returns the values of ``_INSERT`` without the submission."""
    times = (record.submitted_ns, record.state.value)
    return token, record.uid, record.gid, *times


def _changed(record: Record) -> tuple[Any, ...]:
    """Returns the values of ``_UPDATE``."""
    return (
        record.state.value,
        record.start,
        msgspec.json.encode(record.hosts),
        record.started_ns,
        record.ended_ns,
        record.status,
        record.reason,
        record.failed_starts,
        None if record.size is None else msgspec.json.encode(record.size),
        msgspec.json.encode(record.parts) if record.parts else None,
        msgspec.json.encode(record.suspension) if record.suspension else None,
        record.let_in_ns,
        record.number,
    )


def _decode_parts(data: bytes | None, nodes: int) -> tuple[int, ...]:
    """Returns the part of each of ``nodes`` nodes. Raises CoschedError for other bytes."""
    parts = _parts.decode(data) if data else ()
    if parts and (len(parts) != nodes or max(parts) > 1):
        raise CoschedError(f"it has parts {parts} of {nodes} nodes")
    return parts
