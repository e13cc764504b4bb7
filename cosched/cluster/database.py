"""Opens the SQLite files in which controllers keep what they must not forget."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from cosched.cluster.full_disk import advice
from cosched.core.decoding import printable, shown_text
from cosched.core.errors import CoschedError

#: The most characters of an error of SQLite, which can repeat parts of the file.
_LONGEST_ERROR = 200
#: Changes a file to the next version, within a transaction.
Upgrade = Callable[[sqlite3.Connection], None]


def open_database(
    path: Path,
    tables: str,
    version: int,
    remedy: str,
    upgrades: Sequence[Upgrade] = (),
) -> sqlite3.Connection:
    """Opens the file of mode 0600; a new one gets its tables. Each commit reaches the disk.

    remedy: advice about a file that is not ours. upgrades: one for each older version that
    can be opened, the oldest first. Raises CoschedError if the file cannot be opened, is
    damaged or has another version; it then stays as it was.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        file = sqlite3.connect(path, isolation_level=None)
        file.text_factory = shown_text  # a bad byte costs one field
        try:
            _prepare(file, tables, version, upgrades)
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}") from None
    except sqlite3.Error as error:
        raise CoschedError(
            f"{path}: {first_line(error)}; {advice(error, path, remedy)}"
        ) from None
    except UnicodeDecodeError:  # in the error that the damaged schema caused
        raise CoschedError(f"{path}: is damaged: its schema is no text; {remedy}") from None
    except CoschedError as error:
        raise CoschedError(f"{path}: {error}; {remedy}") from None
    return file


def first_line(error: sqlite3.Error) -> str:
    """Returns the first line of an error, fit to be shown: a damaged file writes it."""
    return printable(str(error).partition("\n")[0])[:_LONGEST_ERROR]


def _prepare(
    file: sqlite3.Connection, tables: str, version: int, upgrades: Sequence[Upgrade]
) -> None:
    """Makes the tables of a new file, and brings an older one to this version. Raises
    CoschedError for a file that cannot be used, before anything changes in it."""
    (found,) = file.execute("PRAGMA user_version").fetchone()
    (entries,) = file.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    is_new = (found, entries) == (0, 0)
    readable = range(version - len(upgrades), version + 1)
    if not is_new and found not in readable:
        known = f"{readable[0]} to {version}" if upgrades else str(version)
        raise CoschedError(f"has version {found}, this program reads {known}")
    (check,) = file.execute("PRAGMA quick_check(1)").fetchone()
    if check != "ok":
        raise CoschedError(f"is damaged: {printable(' '.join(check.split()))}")
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = FULL")
    if is_new:  # a crash leaves all of this or nothing
        file.executescript(f"BEGIN; {tables}; PRAGMA user_version = {version}; COMMIT;")
    elif found != version:
        file.execute("BEGIN IMMEDIATE")  # nothing is changed if the file is closed before
        for upgrade in upgrades[found - version :]:
            upgrade(file)
        file.execute(f"PRAGMA user_version = {version}")
        file.execute("COMMIT")
