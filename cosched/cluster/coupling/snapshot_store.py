"""Keeps what a coupled domain must not forget in SQLite, as one snapshot."""

from __future__ import annotations

import time
from pathlib import Path

from cosched.cluster.database import Database, open_database
from cosched.cluster.member import log_line
from cosched.core.cluster.coupling.after_restart import next_incarnation
from cosched.core.cluster.coupling.groups import DomainName, Rights
from cosched.core.cluster.coupling.machine import Coupling
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.cluster.coupling.snapshot import upgraded
from cosched.core.cluster.coupling.state import State
from cosched.core.decoding import Malformed
from cosched.core.errors import CoschedError, StateLost

_VERSION = 2
_TABLE = "CREATE TABLE snapshot (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT"
_REMEDY = "move the file away to forget the jobs' groups"


class SnapshotStore:
    """The snapshot in the file ``path``. Raises CoschedError if it cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = open_database(
                path, _TABLE, _VERSION, _REMEDY, log_line, [_upgrade]
            )
        except Malformed as error:
            raise CoschedError(f"{path}: {error}; {_REMEDY}") from None

    def restart(
        self, name: DomainName, settings: CouplingSettings, rights: Rights, now_ns: int
    ) -> Coupling:
        """Returns the coupling that goes on from the snapshot, or a new one; it is stored.

        now_ns: the monotonic time. Raises CoschedError if the snapshot is damaged, or of
        a domain of another name.
        """
        stored, wall_ns = self.load(), time.time_ns()
        if stored is None:
            state = State(name, incarnation=next_incarnation(0, wall_ns))
            coupling = Coupling(name, settings, rights, state)
        else:
            try:
                coupling = Coupling.restart(stored, settings, now_ns, wall_ns, rights)
            except CoschedError as error:
                raise CoschedError(f"{self._path}: {error}; {_REMEDY}") from None
            if coupling.name != name:
                raise CoschedError(
                    f"{self._path}: is of domain '{coupling.name}', and domain.toml names "
                    f"'{name}'; write that name there, or {_REMEDY}"
                )
        self.keep(coupling)
        return coupling

    def keep(self, coupling: Coupling) -> None:
        """Stores the state of the coupling; it is on the disk when this returns. Raises
        StateLost: nothing may be done that depends on a state that is not stored."""
        self.save(coupling.snapshot(time.time_ns()))

    def load(self) -> bytes | None:
        """Returns the snapshot; None if there is none."""
        row = self._file.find("SELECT data FROM snapshot")
        return None if row is None else bytes(row[0])

    def save(self, snapshot: bytes) -> None:
        """Replaces the snapshot. Waits while the disk is full. Raises StateLost."""
        try:
            self._file.store("INSERT OR REPLACE INTO snapshot VALUES (1, ?)", (snapshot,))
        except CoschedError as error:
            raise StateLost(str(error)) from None

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _upgrade(file: Database) -> None:
    """Brings a file of version 1 to version 2."""
    row = file.find("SELECT data FROM snapshot")
    if row is not None:
        file.run("UPDATE snapshot SET data = ?", (upgraded(bytes(row[0])),))
