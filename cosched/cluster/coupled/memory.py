"""Keeps what a coupled domain must not forget in SQLite, as one snapshot."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from cosched.cluster.database import open_database
from cosched.core.errors import CoschedError

_VERSION = 1
_TABLE = "CREATE TABLE snapshot (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT"


class Memory:
    """The snapshot in the file ``path``. Raises CoschedError if it cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        remedy = "move the file away to forget the jobs' groups"
        self._file = open_database(path, _TABLE, _VERSION, remedy)

    def load(self) -> dict[str, Any] | None:
        """Returns the snapshot; None if there is none."""
        try:
            row = self._file.execute("SELECT data FROM snapshot").fetchone()
            return None if row is None else msgspec.msgpack.decode(row[0])
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise CoschedError(f"{self._path}: {error}") from None

    def save(self, snapshot: dict[str, Any]) -> None:
        """Replaces the snapshot; it is on the disk when this returns."""
        data = msgspec.msgpack.encode(snapshot)
        try:
            self._file.execute("INSERT OR REPLACE INTO snapshot VALUES (1, ?)", (data,))
        except sqlite3.Error as error:
            raise CoschedError(f"{self._path}: {error}") from None

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
