"""Opens the SQLite files in which controllers keep what they must not forget.

All statements go through ``Database``: each error of SQLite becomes one line that names the
file and the remedy.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from cosched.cluster.database_errors import advice, is_full
from cosched.cluster.full_disk import SpaceWait
from cosched.core.decoding import printable, shown_text
from cosched.core.errors import CoschedError

#: Changes a file to the next version, within a transaction.
Upgrade = Callable[["Database"], None]
#: The most characters of SQLite's message in an error, which can repeat parts of the file.
_SHOWN = 200

#: Advice about a file of jobs that is damaged or not ours.
STORE_REMEDY = "move the file away to start with no jobs"


class Database:
    """An open file. Its text may have any bytes: those that are not UTF-8 become U+FFFD, so
    a damaged row is read, and its reader judges it.

    remedy: advice about a damaged file. log: takes a line about a wait for space.
    """

    def __init__(
        self, path: Path, file: sqlite3.Connection, remedy: str, log: Callable[[str], None]
    ) -> None:
        self._path = path
        self._file = file
        self._remedy = remedy
        self._space = SpaceWait(path, log)
        file.text_factory = shown_text

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Runs a statement; returns the number of the row that it added last. Raises
        CoschedError."""
        with one_line(self._path, self._remedy):
            return self._run(statement, values)

    def store(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Runs a statement, again and again while the disk is full. Raises CoschedError for
        another problem, or if the disk stays full."""
        with one_line(self._path, self._remedy):
            self._space.store(lambda: self._run(statement, values))

    def store_all(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Runs all of these statements or none, as ``store``."""
        with one_line(self._path, self._remedy):
            self._space.store(lambda: self._run_together(statements))

    def run_together(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Runs all of these statements or none. Raises CoschedError."""
        with one_line(self._path, self._remedy):
            self._run_together(statements)

    def run_all(self, statements: str) -> None:
        """Runs several statements. Raises CoschedError."""
        with one_line(self._path, self._remedy):
            self._file.executescript(statements)

    def find(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Returns the first row; None if there is none. Raises CoschedError."""
        return next(self.rows(statement, values), None)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yields the rows. Raises CoschedError."""
        with one_line(self._path, self._remedy):
            cursor = self._file.execute(statement, values)
        with closing(cursor):
            while True:
                with one_line(self._path, self._remedy):
                    row = cursor.fetchone()
                if row is None:
                    return
                yield row

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _run_together(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        self._run("BEGIN IMMEDIATE", ())
        try:
            for statement, values in statements:
                self._run(statement, values)
            self._run("COMMIT", ())
        except BaseException:
            self._file.rollback()
            raise

    def _run(self, statement: str, values: Sequence[Any]) -> int:
        with closing(self._file.execute(statement, values)) as done:
            return done.lastrowid or 0


@contextmanager
def one_line(path: Path, remedy: str) -> Iterator[None]:
    """Raises CoschedError for each error of SQLite, and for values that it cannot hold."""
    try:
        yield
    except sqlite3.Error as error:
        what = advice(error, path, remedy)
        raise CoschedError(f"{path}: {_shown(error)}; {what}") from None
    except UnicodeDecodeError:  # in the error that a damaged schema caused
        raise CoschedError(f"{path}: is damaged: its schema is no text; {remedy}") from None
    except (sqlite3.Warning, OverflowError, ValueError) as error:
        raise CoschedError(f"{path}: {_shown(error)}") from None


def open_database(
    path: Path,
    tables: str,
    version: int,
    remedy: str,
    log: Callable[[str], None],
    upgrades: Sequence[Upgrade] = (),
) -> Database:
    """Opens the file of mode 0600; a new one gets its tables. Each commit reaches the disk.

    remedy: advice about a file that is not ours. log: takes a line about a wait for space.
    upgrades: one for each older version that can be opened, the oldest first. Raises
    CoschedError if the file cannot be opened, is damaged or has another version; it then
    stays as it was.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}") from None
    with one_line(path, remedy):
        file = Database(path, sqlite3.connect(path, isolation_level=None), remedy, log)
    try:
        _check(path, file, version, upgrades, remedy)
        _prepare(file, tables, version, upgrades)
    except BaseException:
        file.close()
        raise
    return file


def has_row(path: Path, table: str, condition: str, remedy: str) -> bool:
    """Returns whether a row of an existing file fulfils a condition, whatever the version
    of the file. It has none without the table. Raises CoschedError if the file cannot be
    read.

    remedy: advice about a file that is not ours.
    """
    in_file = f"{path.absolute().as_uri()}?mode=rw"
    with one_line(path, remedy), closing(sqlite3.connect(in_file, uri=True)) as file:
        tables = file.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,))
        if tables.fetchone() is None:
            return False
        rows = file.execute(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1")
        return rows.fetchone() is not None


def copy_database(source: Path, target: Path) -> None:
    """Copies a file into a new one of mode 0600. Other processes may change the source
    meanwhile; the copy has one state of it. Raises CoschedError, also for a damaged
    source, and names the target if its disk is full."""
    for path, flags in ((source, 0), (target, os.O_CREAT | os.O_EXCL)):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600))
        except OSError as error:
            raise CoschedError(f"{path}: {error.strerror}") from None
    remedy = "it cannot be copied"
    with (
        one_line(source, remedy),
        closing(sqlite3.connect(source)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        try:
            old.backup(new)
        except sqlite3.Error as error:
            if not is_full(error, target):
                raise
            what = advice(error, target, remedy)
            raise CoschedError(f"{target}: {_shown(error)}; {what}") from None
        (found,) = new.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise CoschedError(f"{source}: is damaged: {_shown(found)}; {remedy}")


def _check(
    path: Path, file: Database, version: int, upgrades: Sequence[Upgrade], remedy: str
) -> None:
    """Raises CoschedError for a file of another version or a damaged one."""
    found = _single(file, "PRAGMA user_version")
    readable = range(version - len(upgrades), version + 1)
    if not _is_new(file) and found not in readable:
        known = f"{readable[0]} to {version}" if upgrades else str(version)
        raise CoschedError(
            f"{path}: has version {found}, this program reads {known}; {remedy}"
        )
    check = _single(file, "PRAGMA quick_check(1)")
    if check != "ok":
        raise CoschedError(f"{path}: is damaged: {_shown(check)}; {remedy}")


def _prepare(
    file: Database, tables: str, version: int, upgrades: Sequence[Upgrade]
) -> None:
    """Makes the tables of a new file, and brings an older one to this version."""
    is_new, found = _is_new(file), _single(file, "PRAGMA user_version")
    file.run("PRAGMA journal_mode = WAL")
    file.run("PRAGMA synchronous = FULL")
    if is_new:  # a crash leaves all of this or nothing
        file.run_all(f"BEGIN; {tables}; PRAGMA user_version = {version}; COMMIT;")
    elif found != version:
        file.run("BEGIN IMMEDIATE")  # nothing is changed if the file is closed before
        for upgrade in upgrades[found - version :]:
            upgrade(file)
        file.run(f"PRAGMA user_version = {version}")
        file.run("COMMIT")


def _is_new(file: Database) -> bool:
    entries = _single(file, "SELECT count(*) FROM sqlite_schema")
    return (_single(file, "PRAGMA user_version"), entries) == (0, 0)


def _single(file: Database, statement: str) -> Any:
    row = file.find(statement)
    return None if row is None else row[0]


def _shown(message: object) -> str:
    """Returns an error as a part of one line: a damaged file can write it."""
    return " ".join(printable(str(message))[:_SHOWN].split())
