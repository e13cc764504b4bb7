"""The files of the controllers: a damaged, older or foreign one is refused in one line, and
stays as it was."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cosched_daemons import controller

from cosched.cluster.config import DomainConfig
from cosched.cluster.coupled.memory import Memory
from cosched.cluster.database import open_database
from cosched.cluster.paths import DomainPaths
from cosched.cluster.store import JobStore, Record, State
from cosched.cluster.submission import Submission
from cosched.cluster.up import write_domain
from cosched.core.errors import CoschedError

GROUPS = bytes(range(256)) * 200
JOBS = 50


def filled_jobs(path):
    store = JobStore(path)
    for number in range(JOBS):
        submission = Submission(
            token=f"{number}", name="a", argv=("true", "x" * 500), environ={}, cwd="/"
        )
        store.add(f"{number}", Record(0, 7, 7, submission, number, State.QUEUED))
    store.close()


def filled_memory(path):
    memory = Memory(path)
    memory.save(GROUPS)
    memory.close()


def read_jobs(path):
    with contextlib.closing(JobStore(path)) as store:
        return len(store.live())


def read_memory(path):
    with contextlib.closing(Memory(path)) as memory:
        return memory.load()


@dataclass(frozen=True)
class Kind:
    """A store: how it is filled and read, what is in it then, and a user's remedy."""

    fill: Callable[[Path], None]
    read: Callable[[Path], object]
    contents: object
    remedy: str


KINDS = {
    "jobs": Kind(filled_jobs, read_jobs, JOBS, "move the file away to start with no jobs"),
    "memory": Kind(
        filled_memory, read_memory, GROUPS, "move the file away to forget the jobs' groups"
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


@pytest.mark.parametrize("version", [0, 2, 99])
def test_file_of_another_version_is_refused(kind, path, version):
    with_version(path, version)
    line = refusal(kind, path)
    assert line == f"{path}: has version {version}, this program reads 1; {kind.remedy}"
    with_version(path, 1)  # nothing was lost
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
        open_database(path, "CREATE TABLE a (x INTEGER); CREATE BROKEN", 1, "no remedy")
    file = open_database(path, "CREATE TABLE a (x INTEGER)", 1, "no remedy")
    assert file.execute("SELECT count(*) FROM a").fetchone() == (0,)
    file.close()


def test_file_is_changed_by_each_version_in_between(tmp_path):
    path = tmp_path / "old.db"
    open_database(path, "CREATE TABLE a (one INTEGER)", 1, "no remedy").close()

    def second(file):
        file.execute("ALTER TABLE a RENAME COLUMN one TO two")

    def third(file):
        file.execute("ALTER TABLE a RENAME COLUMN two TO three")

    def fail(file):
        third(file)
        raise CoschedError("no")

    before = path.read_bytes()
    with pytest.raises(CoschedError, match=f"^{path}: no; move it$"):
        open_database(path, "", 3, "move it", [second, fail])
    assert path.read_bytes() == before
    open_database(path, "", 2, "move it", [second]).close()
    file = open_database(path, "", 3, "move it", [second, third])
    assert [row[1] for row in file.execute("PRAGMA table_info(a)")] == ["three"]
    file.close()


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
