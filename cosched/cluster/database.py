"""Opens the SQLite files in which controllers keep what they must not forget."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from cosched.core.errors import CoschedError


def open_database(path: Path, tables: str, version: int, remedy: str) -> sqlite3.Connection:
    """Opens the file of mode 0600; a new one gets its tables. Each commit reaches the disk.

    remedy: what the user can do about a file of another version. Raises CoschedError if the
    file cannot be opened, is damaged or has another version.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        file = sqlite3.connect(path, isolation_level=None)
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = FULL")
        (found,) = file.execute("PRAGMA user_version").fetchone()
        if found == 0:
            file.executescript(tables)
            file.execute(f"PRAGMA user_version = {version}")
        elif found != version:
            raise CoschedError(
                f"{path}: has version {found}, this program reads {version}; {remedy}"
            )
        (check,) = file.execute("PRAGMA quick_check").fetchone()
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}") from None
    except sqlite3.Error as error:
        raise CoschedError(f"{path}: {error}") from None
    if check != "ok":
        raise CoschedError(f"{path}: is damaged: {check}")
    return file
