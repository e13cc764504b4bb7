"""Keeps the jobs of a domain in SQLite. Each change is on the disk when its call returns.

A torn or foreign file is refused. The controller's lock keeps a second controller away.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from cosched.cluster.database import Upgrade, first_line, open_database
from cosched.cluster.full_disk import SpaceWait, advice
from cosched.cluster.member import log_line
from cosched.cluster.submission import Submission, decode_submission
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.errors import CoschedError

#: In the file's user_version. Files of version 1 have numbers of nodes instead of names.
#: Those of version 2 do not count the failed starts of a job.
VERSION = 3
_REMEDY = "move the file away to start with no jobs"
#: Stands for a number in a file of version 1 that no node in domain.toml has.
REMOVED = "(removed)"
_TABLE = """
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL UNIQUE,
    uid INTEGER NOT NULL,
    gid INTEGER NOT NULL,
    submission BLOB NOT NULL,
    submitted_ns INTEGER NOT NULL,
    state TEXT NOT NULL,
    start INTEGER NOT NULL DEFAULT 0,
    hosts BLOB,
    started_ns INTEGER,
    ended_ns INTEGER,
    status INTEGER,
    reason TEXT NOT NULL DEFAULT '',
    failed_starts INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state);
CREATE TABLE agents (name TEXT PRIMARY KEY, incarnation INTEGER NOT NULL) STRICT;
"""
_COLUMNS = (
    "number, uid, gid, submission, submitted_ns, state, start, hosts, started_ns, "
    "ended_ns, status, reason, failed_starts"
)


class State(Enum):
    """The state of a job in its domain."""

    HELD = "held"
    QUEUED = "queued"
    STARTING = "starting"  #: a start was sent to the nodes; no task has begun
    RUNNING = "running"  #: the order to go was, or will be, sent
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    NODE_LOST = "node lost"

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self not in _LIVE


_LIVE = frozenset({State.HELD, State.QUEUED, State.STARTING, State.RUNNING})


@dataclass(slots=True)
class Record:
    """A job as it is stored. Times are by the wall clock, ns; None: not yet. start: how
    often it was started. hosts: the names of its nodes in its latest start, by place; they
    stay when domain.toml gets other nodes. status: as a shell reports it. failed_starts:
    how many of its starts nodes in service could not make."""

    number: int
    uid: int
    gid: int
    submission: Submission
    submitted_ns: int
    state: State
    start: int = 0
    hosts: tuple[str, ...] = ()
    started_ns: int | None = None
    ended_ns: int | None = None
    status: int | None = None
    reason: str = ""
    failed_starts: int = 0


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
        self._log = log
        self._space = SpaceWait(path, log)
        upgrades: list[Upgrade] = [partial(_store_names, node_names), _count_failed_starts]
        self._file = open_database(path, _TABLE, VERSION, _REMEDY, upgrades)

    def add(self, token: str, record: Record) -> int:
        """Stores a new job and returns its number. A token that was stored before keeps its
        number. Raises CoschedError if that job belongs to another user, and for a full
        disk."""
        select = "SELECT number, uid FROM jobs WHERE token = ?"
        found = self._run(select, (token,)).fetchone()
        if found is not None:
            number, uid = found
            if uid != record.uid:
                raise CoschedError("the token of this job is taken; choose another one")
            return int(number)
        values = (
            token,
            record.uid,
            record.gid,
            msgspec.json.encode(record.submission),
            record.submitted_ns,
            record.state.value,
        )
        done = self._run(
            "INSERT INTO jobs (token, uid, gid, submission, submitted_ns, state) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )
        assert done.lastrowid is not None
        return done.lastrowid

    def save(self, record: Record) -> None:
        """Stores what has changed since the job was added. Waits while the disk is full."""
        self._store(
            "UPDATE jobs SET state = ?, start = ?, hosts = ?, started_ns = ?, "
            "ended_ns = ?, status = ?, reason = ?, failed_starts = ? WHERE number = ?",
            (
                record.state.value,
                record.start,
                msgspec.json.encode(record.hosts),
                record.started_ns,
                record.ended_ns,
                record.status,
                record.reason,
                record.failed_starts,
                record.number,
            ),
        )

    def live(self) -> list[Record]:
        """Returns the jobs that have not ended, by number. Leaves out damaged records, with
        one line each."""
        states = [state.value for state in State if not state.over]
        marks = ", ".join("?" * len(states))
        rows = self._run(
            f"SELECT {_COLUMNS} FROM jobs WHERE state IN ({marks}) ORDER BY number", states
        )
        return list(self._readable(rows))

    def find(self, number: int) -> Record | None:
        """Returns a job; None if there is none of this number."""
        row = self._run(
            f"SELECT {_COLUMNS} FROM jobs WHERE number = ?", (number,)
        ).fetchone()
        return None if row is None else self._record(row)

    def latest(self, most: int) -> Iterator[Record]:
        """Yields the jobs with the greatest numbers, the latest first, as ``live``."""
        rows = self._run(
            f"SELECT {_COLUMNS} FROM jobs ORDER BY number DESC LIMIT ?", (most,)
        )
        return self._readable(rows)

    def agents(self) -> dict[str, int]:
        """Returns the incarnation of each node's latest agent."""
        return dict(self._run("SELECT name, incarnation FROM agents"))

    def save_agent(self, name: str, incarnation: int) -> None:
        """Stores which agent a node has. Waits while the disk is full."""
        self._store("INSERT OR REPLACE INTO agents VALUES (?, ?)", (name, incarnation))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self._file.execute(statement, values)
        except sqlite3.Error as error:
            raise self._broken(error) from None

    def _store(self, statement: str, values: Sequence[Any]) -> None:
        try:
            self._space.store(lambda: self._file.execute(statement, values))
        except sqlite3.Error as error:
            raise self._broken(error) from None

    def _broken(self, error: sqlite3.Error) -> CoschedError:
        return CoschedError(
            f"{self._path}: {first_line(error)}; {advice(error, self._path, _REMEDY)}"
        )

    def _readable(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[Record]:
        for row in rows:
            try:
                yield self._record(row)
            except CoschedError as error:
                self._log(f"{error}; it is left out")

    def _record(self, row: tuple[Any, ...]) -> Record:
        number, uid, gid, submission, submitted_ns, state, start, hosts, *rest = row
        try:
            return Record(
                number,
                uid,
                gid,
                decode_submission(submission),
                submitted_ns,
                State(state),
                start,
                msgspec.json.decode(hosts, type=tuple[str, ...]) if hosts else (),
                *rest,
            )
        except (ValueError, msgspec.MsgspecError, CoschedError) as error:
            raise CoschedError(f"{self._path}: job {number} is damaged: {error}") from None


def _store_names(node_names: Sequence[str], file: sqlite3.Connection) -> None:
    """Gives a file of version 1 the names of nodes. A damaged record stays as it is."""
    names = dict(enumerate(node_names))
    file.execute("ALTER TABLE jobs RENAME COLUMN nodes TO hosts")
    rows = file.execute("SELECT number, hosts FROM jobs WHERE hosts IS NOT NULL")
    for number, found in rows.fetchall():
        try:
            nodes = msgspec.json.decode(found, type=Intervals)
        except msgspec.MsgspecError:
            continue
        hosts = [
            names.get(node, REMOVED)
            for first, last in nodes
            for node in range(first, last + 1)
        ]
        file.execute(
            "UPDATE jobs SET hosts = ? WHERE number = ?",
            (msgspec.json.encode(hosts), number),
        )


def _count_failed_starts(file: sqlite3.Connection) -> None:
    """Gives each job of a file of version 2 the count of its failed starts, which is 0."""
    file.execute("ALTER TABLE jobs ADD COLUMN failed_starts INTEGER NOT NULL DEFAULT 0")
