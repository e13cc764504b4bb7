"""Defines the tables of a job store, and the steps that upgrade older files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from cosched.cluster import learned_store
from cosched.cluster.database import Database, Upgrade
from cosched.core.bounds import Slots
from cosched.core.cluster.queue.nodes import Intervals, numbers
from cosched.core.decoding import JsonDecoder, Malformed

#: In the file's user_version. Files of version 1 have numbers of nodes instead of names.
#: Those of version 2 do not count the failed starts of a job. Those of version 3 have no
#: malleable jobs. Those of version 4 have all changes of sizes, and do not count them.
#: Those of version 5 have no jobs on halves of nodes, those of version 6 no drains, and
#: those of version 7 no arrays, no suspended jobs, and nothing that was learned of
#: programs. Those of version 8 have no batch scripts in submissions, and those of version 9
#: no preferred sizes.
VERSION = 10
#: How many changes of a job's size are kept, the latest ones. All of them are counted.
CHANGES_MOST = 100
#: Stands for a number in a file of version 1 that no node in domain.toml has.
REMOVED = "(removed)"
_CHANGES = """
CREATE TABLE changes (
    job INTEGER NOT NULL,
    start INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    change BLOB NOT NULL,
    PRIMARY KEY (job, start, generation)
) STRICT
"""
_DRAINS = "CREATE TABLE drains (name TEXT PRIMARY KEY, reason TEXT NOT NULL) STRICT"
#: The submission that all tasks of an array share, by the number of the first task.
_ARRAYS = (
    "CREATE TABLE arrays (number INTEGER PRIMARY KEY, submission BLOB NOT NULL) STRICT"
)
_BY_ARRAY = "CREATE INDEX jobs_by_array ON jobs (array) WHERE array <> 0"
_COUNTS = """
CREATE TABLE change_counts (
    job INTEGER PRIMARY KEY,
    done INTEGER NOT NULL,
    refused INTEGER NOT NULL
) STRICT
"""
TABLES = f"""
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
    failed_starts INTEGER NOT NULL DEFAULT 0,
    size BLOB,
    parts BLOB,
    suspension BLOB,
    array INTEGER NOT NULL DEFAULT 0,
    task INTEGER,
    let_in_ns INTEGER
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state);
{_BY_ARRAY};
{_ARRAYS};
CREATE TABLE agents (name TEXT PRIMARY KEY, incarnation INTEGER NOT NULL) STRICT;
{_CHANGES};
{_COUNTS};
{_DRAINS};
{learned_store.TABLES};
"""
_intervals: JsonDecoder[Intervals] = JsonDecoder(
    tuple[tuple[Slots, Slots], ...], "numbers of nodes"
)


def upgrades(node_names: Sequence[str]) -> list[Upgrade]:
    """Returns the steps from each version to the next, from version 1 on. node_names: the
    domain's nodes by number, for a file of version 1."""
    return [
        partial(_store_names, node_names),
        _count_failed_starts,
        _store_sizes,
        _count_changes,
        _store_parts,
        _store_drains,
        _store_arrays_and_learned,
        _allow_scripts,
        _allow_preferred_sizes,
    ]


def _store_names(node_names: Sequence[str], file: Database) -> None:
    """Gives a file of version 1 the names of nodes. A damaged record stays as it is."""
    names = dict(enumerate(node_names))
    file.run("ALTER TABLE jobs RENAME COLUMN nodes TO hosts")
    rows = file.rows("SELECT number, hosts FROM jobs WHERE hosts IS NOT NULL")
    for number, found in list(rows):
        try:
            nodes = _intervals.decode(found)
        except Malformed:
            continue
        hosts = [names.get(node, REMOVED) for node in numbers(nodes)]
        file.run(
            "UPDATE jobs SET hosts = ? WHERE number = ?",
            (msgspec.json.encode(hosts), number),
        )


def _count_failed_starts(file: Database) -> None:
    """Gives each job of a file of version 2 the count of its failed starts, which is 0."""
    file.run("ALTER TABLE jobs ADD COLUMN failed_starts INTEGER NOT NULL DEFAULT 0")


def _store_sizes(file: Database) -> None:
    """Gives a file of version 3 what is stored about malleable jobs."""
    file.run("ALTER TABLE jobs ADD COLUMN size BLOB")
    file.run(_CHANGES)


def _count_changes(file: Database) -> None:
    """Counts the changes in a file of version 4, and removes all but the latest ones."""
    file.run(_COUNTS)
    file.run(
        "INSERT INTO change_counts SELECT job, sum(refused = ''), sum(refused <> '') FROM "
        "(SELECT job, json_extract(CAST(change AS TEXT), '$.refused') AS refused "
        "FROM changes WHERE json_valid(CAST(change AS TEXT))) "
        "WHERE refused IS NOT NULL GROUP BY job"
    )
    file.run(
        "DELETE FROM changes WHERE rowid IN (SELECT rowid FROM (SELECT rowid, row_number() "
        "OVER (PARTITION BY job ORDER BY start DESC, generation DESC) AS age FROM changes) "
        "WHERE age > ?)",
        (CHANGES_MOST,),
    )


def _store_parts(file: Database) -> None:
    """Gives a file of version 5 what is stored about jobs on halves of nodes."""
    file.run("ALTER TABLE jobs ADD COLUMN parts BLOB")


def _store_drains(file: Database) -> None:
    """Gives a file of version 6 room for drains."""
    file.run(_DRAINS)


def _store_arrays(file: Database) -> None:
    """Gives a file of version 7 what is stored about arrays, jobs that are kept back and
    suspended jobs."""
    file.run("ALTER TABLE jobs ADD COLUMN suspension BLOB")
    file.run("ALTER TABLE jobs ADD COLUMN array INTEGER NOT NULL DEFAULT 0")
    file.run("ALTER TABLE jobs ADD COLUMN task INTEGER")
    file.run("ALTER TABLE jobs ADD COLUMN let_in_ns INTEGER")
    file.run(_BY_ARRAY)
    file.run(_ARRAYS)


def _allow_scripts(_file: Database) -> None:
    """Changes nothing: a submission without a script is what it was. But controllers of
    version 8 would not read one with a script."""


def _allow_preferred_sizes(_file: Database) -> None:
    """Changes nothing: without a preferred size a job prefers its ideal. But controllers of
    version 9 would not read a submission with one."""


def _store_arrays_and_learned(file: Database) -> None:
    """Gives a file of version 7 arrays of jobs, and room for what a domain learns."""
    _store_arrays(file)
    learned_store.store_learned(file)
