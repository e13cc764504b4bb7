"""Opens the SQLite files in which controllers keep what they must not forget."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from cosched.core.errors import CoschedError


def open_database(path: Path, tables: str, version: int, remedy: str) -> sqlite3.Connection:
    """Opens the file of mode 0600; a new one gets its tables. Each commit reaches the disk.

    remedy: advice about a file that is not ours. Raises CoschedError if the file cannot be
    opened, is damaged or has another version; it then stays as it was.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        file = sqlite3.connect(path, isolation_level=None)
        try:
            _prepare(file, tables, version)
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}") from None
    except sqlite3.DatabaseError as error:
        raise CoschedError(f"{path}: {error}; {remedy}") from None
    except CoschedError as error:
        raise CoschedError(f"{path}: {error}; {remedy}") from None
    return file


def _prepare(file: sqlite3.Connection, tables: str, version: int) -> None:
    """Raises CoschedError for a file that cannot be used, before anything changes in it."""
    (found,) = file.execute("PRAGMA user_version").fetchone()
    (entries,) = file.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    is_new = (found, entries) == (0, 0)
    if not is_new and found != version:
        raise CoschedError(f"has version {found}, this program reads {version}")
    (check,) = file.execute("PRAGMA quick_check(1)").fetchone()
    if check != "ok":
        raise CoschedError(f"is damaged: {' '.join(check.split())}")
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = FULL")
    if is_new:  # a crash leaves all of this or nothing
        file.executescript(f"BEGIN; {tables}; PRAGMA user_version = {version}; COMMIT;")
