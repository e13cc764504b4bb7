"""The files of the controllers: a damaged or foreign one is refused in one line, and stays
as it was. A store of version 1 is changed to the present version."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest
from cosched_daemons import controller

from cosched.cluster import store as stores
from cosched.cluster.coupling.snapshot_store import SnapshotStore
from cosched.cluster.database import open_database
from cosched.cluster.job_size import JobSize, OpenChange, PastChange
from cosched.cluster.job_suspension import JobSuspension
from cosched.cluster.paths import DomainPaths
from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.cluster.store_versions import VERSION
from cosched.cluster.submission import Submission
from cosched.cluster.up.domain import write_domain
from cosched.config.domain import DomainConfig
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.labels import Checked
from cosched.core.symbiosis.program_pairs import Pair, PairRun
from cosched.core.symbiosis.resources import Resource

GROUPS = bytes(range(256)) * 200
JOBS = 50
NODES = ("n0", "n1", "n2")


def filled_jobs(path):
    store = JobStore(path, NODES)
    for number in range(JOBS):
        submission = Submission(
            token=f"{number}", name="a", argv=("true", "x" * 500), environ={}, cwd="/"
        )
        store.add(f"{number}", Record(0, 7, 7, submission, number, State.QUEUED))
    store.close()


def filled_memory(path):
    memory = SnapshotStore(path)
    memory.save(GROUPS)
    memory.close()


def read_jobs(path):
    with contextlib.closing(JobStore(path, NODES)) as store:
        return len(store.live())


def read_memory(path):
    with contextlib.closing(SnapshotStore(path)) as memory:
        return memory.load()


@dataclass(frozen=True)
class Kind:
    """A store: how it is filled and read, what is in it then, and a user's remedy. version:
    that of its files. reads: the versions that can be opened, as an error names them."""

    fill: Callable[[Path], None]
    read: Callable[[Path], object]
    contents: object
    remedy: str
    version: int
    reads: str


KINDS = {
    "jobs": Kind(
        filled_jobs,
        read_jobs,
        JOBS,
        "move the file away to start with no jobs",
        VERSION,
        "1 to 10",
    ),
    "memory": Kind(
        filled_memory,
        read_memory,
        GROUPS,
        "move the file away to forget the jobs' groups",
        2,
        "1 to 2",
    ),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def path(tmp_path, kind):
    path = tmp_path / "store.db"
    kind.fill(path)
    assert kind.read(path) == kind.contents
    return path


def refusal(kind, path):
    """Returns the line that refuses the file, which must not change."""
    before = path.read_bytes()
    with pytest.raises(CoschedError) as caught:
        kind.read(path)
    assert path.read_bytes() == before
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    return line


def with_version(path, version):
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("PRAGMA journal_mode = DELETE")  # as a copy of an older program may have
    file.execute(f"PRAGMA user_version = {version}")
    file.close()


@pytest.mark.parametrize("version", [0, 11, 99])
def test_file_of_another_version_is_refused(kind, path, version):
    with_version(path, version)
    line = refusal(kind, path)
    reads = f"this program reads {kind.reads}"
    assert line == f"{path}: has version {version}, {reads}; {kind.remedy}"
    with_version(path, kind.version)  # nothing was lost
    assert kind.read(path) == kind.contents


def test_file_of_another_program_is_refused(kind, tmp_path):
    path = tmp_path / "other.db"
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("CREATE TABLE recipes (name TEXT)")
    file.close()
    assert "has version 0" in refusal(kind, path)


def test_file_that_is_no_database_is_refused(kind, tmp_path):
    path = tmp_path / "text.db"
    path.write_text("no database\n" * 1000)
    assert "not a database" in refusal(kind, path)


def test_truncated_file_is_refused(kind, path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refusal(kind, path)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_overwritten_page_is_refused(kind, path, place):
    data = bytearray(path.read_bytes())
    page = int(place * len(data)) // 4096 * 4096
    data[page : page + 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    refusal(kind, path)


def test_creation_that_ends_half_way_is_made_again(tmp_path):
    """Without its version number a new file has no table either."""
    path = tmp_path / "new.db"
    with pytest.raises(CoschedError):
        open_database(
            path, "CREATE TABLE a (x INTEGER); CREATE BROKEN", 1, "no remedy", print
        )
    file = open_database(path, "CREATE TABLE a (x INTEGER)", 1, "no remedy", print)
    assert file.find("SELECT count(*) FROM a") == (0,)
    file.close()


def test_file_is_changed_by_each_version_in_between(tmp_path):
    path = tmp_path / "old.db"
    open_database(path, "CREATE TABLE a (one INTEGER)", 1, "no remedy", print).close()

    def second(file):
        file.run("ALTER TABLE a RENAME COLUMN one TO two")

    def third(file):
        file.run("ALTER TABLE a RENAME COLUMN two TO three")

    def fail(file):
        third(file)
        raise CoschedError("no")

    before = path.read_bytes()
    with pytest.raises(CoschedError, match=r"^no$"):
        open_database(path, "", 3, "move it", print, [second, fail])
    assert path.read_bytes() == before
    open_database(path, "", 2, "move it", print, [second]).close()
    file = open_database(path, "", 3, "move it", print, [second, third])
    assert [row[1] for row in file.rows("PRAGMA table_info(a)")] == ["three"]
    file.close()


# -- stores of version 1 -------------------------------------------------------------------

#: The table of version 1.
OLD_TABLE = """
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL UNIQUE,
    uid INTEGER NOT NULL,
    gid INTEGER NOT NULL,
    submission BLOB NOT NULL,
    submitted_ns INTEGER NOT NULL,
    state TEXT NOT NULL,
    start INTEGER NOT NULL DEFAULT 0,
    nodes BLOB,
    started_ns INTEGER,
    ended_ns INTEGER,
    status INTEGER,
    reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state);
CREATE TABLE agents (name TEXT PRIMARY KEY, incarnation INTEGER NOT NULL) STRICT;
INSERT INTO agents VALUES ('n1', 7);
PRAGMA user_version = 1;
"""


#: Removes what files of version 7 lack.
WITHOUT_LEARNED = "DROP TABLE pair_runs; DROP TABLE labels; "


@pytest.fixture
def old(tmp_path):
    """Returns a function that fills a store of version 1: a job for each state and nodes,
    which are JSON with the first and the last number of each interval, or nothing."""
    path = tmp_path / "jobs.sqlite"

    def fill(*jobs):
        submission = Submission(
            token="t", name="a", argv=("true",), environ={"A": "b"}, cwd="/"
        )
        stored = msgspec.json.encode(submission)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute("PRAGMA journal_mode = WAL")
            file.executescript(OLD_TABLE)
            for number, (state, nodes) in enumerate(jobs, 1):
                row = (number, f"t{number}", stored, state.value, nodes)
                file.execute(
                    "INSERT INTO jobs "
                    "VALUES (?, ?, 7, 8, ?, 9, ?, 2, ?, 10, 11, 12, 'why')",
                    row,
                )
        return path

    return fill


def test_store_of_version_1_gets_the_names_of_the_nodes(old):
    path = old(
        (State.RUNNING, b"[[0,1]]"),
        (State.DONE, b"[[0,0],[2,2]]"),
        (State.QUEUED, None),
        (State.CANCELLED, b"[]"),
        (State.FAILED, b"[[2,3]]"),
    )
    expected = {
        1: ("n0", "n1"),
        2: ("n0", "n2"),
        3: (),
        4: (),
        5: ("n2", "(removed)"),
    }
    for names in (NODES, ["other", "nodes"]):
        with contextlib.closing(JobStore(path, names)) as store:
            assert {number: store.find(number).hosts for number in expected} == expected
            assert [record.number for record in store.live()] == [1, 3]
            assert store.agents() == {"n1": 7}
            record = store.find(2)
            assert (record.uid, record.gid, record.submitted_ns) == (7, 8, 9)
            assert (record.start, record.started_ns, record.ended_ns) == (2, 10, 11)
            assert (record.state, record.status, record.reason) == (State.DONE, 12, "why")
            assert record.submission.environ == {"A": "b"}


def test_store_of_version_1_takes_new_jobs(old):
    path = old((State.DONE, b"[[0,0]]"))
    with contextlib.closing(JobStore(path, NODES)) as store:
        submission = store.find(1).submission
        added = store.add("new", Record(0, 7, 7, submission, 0, State.QUEUED))
        record = store.find(added)
        record.hosts = ("n2",)
        store.save(record)
        assert (added, store.find(added).hosts) == (2, ("n2",))


def test_store_of_version_2_counts_failed_starts(old):
    path = old((State.QUEUED, None))
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.executescript(
            "ALTER TABLE jobs RENAME COLUMN nodes TO hosts; PRAGMA user_version = 2;"
        )
    for failed in (1, 2):
        with contextlib.closing(JobStore(path, NODES)) as store:
            record = store.find(1)
            assert record.failed_starts == failed - 1
            record.failed_starts += 1
            store.save(record)
            assert store.find(1).failed_starts == failed


SIZE = JobSize(
    ((0, 2), (3,)),
    4,
    OpenChange(4, 50, 90, (0, 3, 5), "got 1 free node", sent=True, prepare_ns=6),
    since_ns=40,
    node_ns=400,
)
CHANGE = PastChange(
    3, 30, 40, 2, 3, (), ("n3",), "got 1 free node", cost_ns=7, prepare_ns=5
)


def test_store_of_version_3_takes_sizes(old):
    path = old((State.RUNNING, b"[[0,1]]"))
    with contextlib.closing(JobStore(path, NODES)) as store:
        record = store.find(1)
        assert (record.size, store.changes(1)) == (None, [])
        hosts = tuple(f"n{at}" for at in range(6))
        store.save(replace(record, size=SIZE, hosts=hosts))
        for _ in range(2):  # as after a restart of the controller
            store.save_change(record, CHANGE)
    with contextlib.closing(JobStore(path, NODES)) as store:
        record = store.find(1)
        assert record.size == SIZE
        assert record.nodes == ("n0", "n2", "n3")
        assert record.admitted == ("n0", "n2", "n3", "n5")
        assert store.changes(1) == [CHANGE]


def fill_with_changes(store, count):
    """Stores changes of job 1; each third one is refused."""
    record = store.find(1)
    for at in range(1, count + 1):
        words = "" if at % 3 else "its program left the loop"
        store.save_change(
            record, msgspec.structs.replace(CHANGE, generation=at, refused=words)
        )


def check_changes(store):
    """Checks that of 150 changes the latest are kept, and all are counted."""
    assert [each.generation for each in store.changes(1)] == [*range(51, 151)]
    assert store.times_resized(1) == 100
    assert dict(store.changes_ended) == {False: 100, True: 50}


def test_latest_changes_are_kept_and_all_are_counted(old):
    path = old((State.RUNNING, b"[[0,1]]"))
    with contextlib.closing(JobStore(path, NODES)) as store:
        fill_with_changes(store, 150)
        store.save_change(
            store.find(1), msgspec.structs.replace(CHANGE, generation=150, refused="no")
        )
        check_changes(store)
    with contextlib.closing(JobStore(path, NODES)) as store:
        check_changes(store)
        assert store.times_resized(2) == 0


#: Takes from a file what version 7 does not have.
WITHOUT_ARRAYS = (
    "DROP INDEX jobs_by_array; DROP TABLE arrays; ALTER TABLE jobs DROP COLUMN array;"
    "ALTER TABLE jobs DROP COLUMN task; ALTER TABLE jobs DROP COLUMN let_in_ns;"
    "ALTER TABLE jobs DROP COLUMN suspension;"
)


def test_store_of_version_4_counts_its_changes(old, monkeypatch):
    path = old((State.RUNNING, b"[[0,1]]"))
    with contextlib.closing(JobStore(path, NODES)) as store:
        monkeypatch.setattr(stores, "CHANGES_MOST", 1000)
        fill_with_changes(store, 150)
        monkeypatch.undo()
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.executescript(
            f"{WITHOUT_LEARNED}"
            "INSERT INTO changes VALUES (2, 1, 1, x'00'), (3, 1, 1, x'7b7d');"
            "DROP TABLE change_counts; ALTER TABLE jobs DROP COLUMN parts;"
            f"DROP TABLE drains; {WITHOUT_ARRAYS} PRAGMA user_version = 4;"
        )
    with contextlib.closing(JobStore(path, NODES)) as store:
        check_changes(store)


def test_store_of_version_5_takes_jobs_on_halves(old):
    path = old((State.RUNNING, b"[[0,1]]"), (State.RUNNING, b"[[0,1]]"))
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert store.find(1).parts == ()
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.executescript(
            f"{WITHOUT_LEARNED}"
            "ALTER TABLE jobs DROP COLUMN parts; DROP TABLE drains;"
            f"{WITHOUT_ARRAYS} PRAGMA user_version = 5;"
        )
    with contextlib.closing(JobStore(path, NODES)) as store:
        store.save(replace(store.find(1), hosts=("n0", "n1"), parts=(0, 1)))
        store.save(replace(store.find(2), hosts=("n0", "n1"), parts=(0,)))
        assert (store.find(1).parts, store.find(1).nodes) == ((0, 1), ("n0", "n1"))
        with pytest.raises(CoschedError, match=r"it has parts \(0,\) of 2 nodes"):
            store.find(2)


def test_store_of_version_7_takes_arrays(old):
    path = old((State.QUEUED, None))
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert store.tasks_of(1) == []
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.executescript(f"{WITHOUT_LEARNED}{WITHOUT_ARRAYS} PRAGMA user_version = 7;")
    with contextlib.closing(JobStore(path, NODES)) as store:
        before = store.find(1)
        assert (before.array, before.task, before.let_in_ns) == (0, None, None)
        first = store.add_array("new", replace(before, number=0), [3, 5])
        one, two = store.tasks_of(first)
        assert (one.label, two.label) == (f"{first}_3", f"{first}_5")
        assert one.submission is two.submission
        store.save(replace(two, let_in_ns=5))
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert store.find(two.number).let_in_ns == 5
        assert [each.number for each in store.outcomes(first)] == [first, first + 1]


def test_task_without_its_array_is_left_out(old, capsys):
    path = old((State.QUEUED, None))
    with contextlib.closing(JobStore(path, NODES)) as store:
        store.add_array("new", replace(store.find(1), number=0), [1])
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("DELETE FROM arrays")
        file.commit()
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert [each.number for each in store.live()] == [1]
    assert "array 2 is missing" in capsys.readouterr().err


def test_store_of_version_6_takes_drains(old):
    path = old((State.RUNNING, b"[[0,1]]"))
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert store.drains() == {}
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.executescript(
            f"{WITHOUT_LEARNED}DROP TABLE drains; {WITHOUT_ARRAYS} PRAGMA user_version = 6;"
        )
    with contextlib.closing(JobStore(path, NODES)) as store:
        store.save_drain("n0", "new disk")
        store.save_drain("n1", "")
        store.forget_drain("n1")
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert store.drains() == {"n0": "new disk"}


def test_store_of_version_7_takes_suspended_jobs(old):
    path = old((State.RUNNING, b"[[0,1]]"), (State.RUNNING, b"[[0,1]]"))
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert store.find(1).suspension is None
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.executescript(f"{WITHOUT_LEARNED}{WITHOUT_ARRAYS} PRAGMA user_version = 7;")
    stored = JobSuspension(2, 9, 30, continues=True, done=1, total_ns=7)
    with contextlib.closing(JobStore(path, NODES)) as store:
        store.save(replace(store.find(1), suspension=stored))
        store._file.run("UPDATE jobs SET suspension = x'7b' WHERE number = 2")
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert store.find(1).suspension == stored
        with pytest.raises(CoschedError, match="the suspensions of a job"):
            store.find(2)


def test_store_of_version_7_takes_what_is_learned(old):
    path = old((State.RUNNING, b"[[0,1]]"))
    with contextlib.closing(JobStore(path, NODES)):
        pass
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.executescript(f"{WITHOUT_LEARNED}{WITHOUT_ARRAYS} PRAGMA user_version = 7;")
    run = PairRun(1, 2, 7, Pair("7.lu", "8.ep"), 1.25, 1.1, 5)
    cpu, memory = frozenset({Resource.CPU}), frozenset({Resource.MEMORY})
    label = Checked(7, "lu", cpu, memory, 3, 0, 3, 6)
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert store.learned.runs() == []
        for each in (run, replace(run, job=2)):
            store.learned.save_run(each, [])
        store.learned.save_run(replace(run, slowdown=1.5), [replace(run, job=2)])
        store.learned.save_label(replace(label, program="sp", found=frozenset()), [])
        store.learned.save_label(label, [replace(label, program="sp")])
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert store.learned.runs() == [replace(run, slowdown=1.5)]
        assert store.learned.labels() == [label]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE pair_runs SET slowdown = 0.0",
        "UPDATE pair_runs SET slowdown = 9e999",
        "UPDATE pair_runs SET job = -1",
        "UPDATE labels SET found = 'disk'",
        "UPDATE labels SET runs = -1",
    ],
)
def test_damaged_rows_of_what_is_learned_are_left_out(tmp_path, damage):
    path, lines = tmp_path / "jobs.sqlite", []
    cpu = frozenset({Resource.CPU})
    with contextlib.closing(JobStore(path, NODES)) as store:
        pair = Pair("7.lu", "8.ep")
        store.learned.save_run(PairRun(1, 2, 7, pair, 1.25, 1.1, 5), [])
        store.learned.save_label(Checked(7, "lu", cpu, cpu, 3, 0, 3, 6), [])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(damage)
    with contextlib.closing(JobStore(path, NODES, lines.append)) as store:
        assert len(store.learned.runs()) + len(store.learned.labels()) == 1
        (line,) = lines
        assert "a row is left out" in line


def test_change_is_stored_with_its_count_or_not_at_all(old):
    path = old((State.RUNNING, b"[[0,1]]"))
    with contextlib.closing(JobStore(path, NODES)) as store:
        store._file.run("DROP TABLE change_counts")
        with pytest.raises(CoschedError, match="change_counts"):
            store.save_change(store.find(1), CHANGE)
        assert store.changes(1) == []
        assert dict(store.changes_ended) == {False: 0, True: 0}


def test_times_of_all_nodes_add_up():
    size = JobSize(((0, 1),)).ordered(OpenChange(1, 30, None, (0, 1, 2), "got 1"))
    assert size.used_ns(40, began_ns=10) == 60
    grown = size.done(40, began_ns=10)
    assert (grown.growths, grown.node_ns) == (((0, 1), (2,)), 60)
    shrinking = grown.ordered(OpenChange(2, 50, None, (0,), "gave 2"))
    assert (shrinking.leaving, shrinking.arriving) == ((1, 2), ())
    assert shrinking.refused().used_ns(50, began_ns=10) == 90
    assert shrinking.done(60, began_ns=10).used_ns(70, began_ns=10) == 130


@pytest.mark.parametrize(
    "size", [b'{"growths":[[0,1]]}', b'{"growths":[]}', b'{"growths":[[-1]]}', b"\xff"]
)
def test_damaged_size_damages_the_job_alone(old, size):
    path = old((State.RUNNING, b"[[0,0]]"), (State.RUNNING, b"[[0,0]]"))
    JobStore(path, NODES).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("UPDATE jobs SET size = ? WHERE number = 1", (size,))
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert [record.number for record in store.live()] == [2]


def test_damaged_change_is_left_out(old):
    path = old((State.RUNNING, b"[[0,0]]"))
    lines = []
    with contextlib.closing(JobStore(path, NODES, lines.append)) as store:
        store.save_change(store.find(1), CHANGE)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute("INSERT INTO changes VALUES (1, 1, 1, x'00')")
        assert store.changes(1) == [CHANGE]
    assert len(lines) == 1


def test_damaged_job_does_not_keep_a_store_of_version_1_from_opening(old):
    path = old((State.DONE, b"[[0,"), (State.DONE, b"[[1,1]]"))
    with contextlib.closing(JobStore(path, NODES)) as store:
        assert store.find(2).hosts == ("n1",)
        with pytest.raises(CoschedError, match="job 1 is damaged"):
            store.find(1)


def test_controller_ends_with_one_line_about_a_damaged_file(tmp_path, monkeypatch):
    paths = DomainPaths(tmp_path)
    config = DomainConfig("lone", "127.0.0.1:7000", {"n1": "127.0.0.1:7001"})
    write_domain(paths, config)
    paths.store.write_text("no database\n" * 1000)
    monkeypatch.setattr(sys, "argv", ["cosched-controller", "--run-dir", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        controller.main()
    line = f"cosched-controller: {paths.store}: file is not a database; "
    assert ended.value.code == line + KINDS["jobs"].remedy
